"""Fetches from logs: offsets, sizes, and waits. (Sessions are in `fetch_sessions`.)"""

from __future__ import annotations

from sarameya.protocol.versions import Api
from tests.transcripts.batches import batch
from tests.transcripts.log_requests import MIB, ORDERS, READ_COMMITTED, At, fetch, store
from tests.transcripts.script import Await, DeleteRecords, DeleteTopic, Look, MoveLeader, Step, Transcript
from tests.transcripts.versions import every

_EVERY = every(Api.FETCH)
_SOME = ("lowest", "2.7", "3.1", "4.1")
"""The oldest profile, the first with compact encoding, the first with topic ids, and the newest."""
_WITH_EPOCHS = ("2.1", "2.7", "3.1", "3.5", "3.7", "4.1")
_TOPICS = {"orders": 1}
_SEVERAL = {"orders": 3}

_LONG = 15_000
"""A wait in milliseconds that is longer than a play."""
_SHORT = 2_500
"""A wait in milliseconds whose end a play waits for."""

_ALL = {ORDERS: 0, ("orders", 1): 0, ("orders", 2): 0}
_KILO = "x" * 999
_STORED: tuple[Step, ...] = (*(store(to={(topic, n): batch(f"{n}{_KILO}") for topic, n in _ALL}) for _ in range(2)),)
"""Two batches of 1,070 bytes in each of the three partitions."""


def _limited(partition: int, total: int = MIB) -> Step:
    """Fetch all three partitions with limits in bytes, for each partition and in total."""
    return fetch("a", {at: At(0, max_bytes=partition) for at in _ALL}, max_bytes=total)


_EPOCHS: tuple[Step, ...] = (
    store("a", "b"),
    MoveLeader("orders", 0, 1),
    store("c", broker=1),
    MoveLeader("orders", 0, 2),
    MoveLeader("orders", 0, 1),
    store("d", "e", broker=1),
)
"""Epochs 0 (offsets 0 and 1), 1 (offset 2) and 3 (offsets 3 and 4) have records."""

TRANSCRIPTS = (
    Transcript(
        "fetch: from a position on",
        (
            fetch("a", 0),
            store("a", "b", "c"),
            store("d"),
            *(fetch("a", at) for at in range(5)),
            fetch("a", {ORDERS: 3, ("orders", 1): 0}),
            fetch("a", 0, isolation=READ_COMMITTED),
        ),
        profiles=_EVERY,
        topics=_SEVERAL,
    ),
    Transcript(
        "fetch: from offsets that the log does not have",
        (
            store("a", "b", "c"),
            DeleteRecords("orders", 0, 2),
            *(fetch("a", at, max_wait=_LONG) for at in (0, 1, 4, -1, 2**62)),
            fetch("a", 2),
            fetch("a", {ORDERS: 7, ("orders", 1): 0}, max_wait=_LONG),
            fetch("a", {("orders", 1): 1, ORDERS: 2}, max_wait=_LONG, min_bytes=1000),
        ),
        profiles=_SOME,
        topics=_SEVERAL,
    ),
    Transcript(
        "fetch: topics and partitions that do not exist",
        (
            store("a"),
            fetch("a", {("unknown", 0): 0}, max_wait=_LONG),
            fetch("a", {("orders", 3): 0, ("unknown", 0): 0, ("orders", -1): 0}, max_wait=_LONG),
            fetch("a", {("orders", 3): 0, ORDERS: 0, ("unknown", 0): 0}),
            fetch("a", {("orders", 3): 0, ORDERS: 1, ("unknown", 0): 0}, max_wait=_LONG, held=True),
            store("b"),
            Await("a"),
        ),
        profiles=_EVERY,
        topics=_SEVERAL,
    ),
    Transcript(
        "fetch: of no partitions",
        (fetch("a", {}, max_wait=_LONG), fetch("a", {("orders", 0): 0}, forgotten=[("orders", 1)])),
        profiles=("1.1", "2.7", "3.1"),
        topics=_SEVERAL,
    ),
    Transcript(
        "fetch: waits for a record",
        (
            fetch("a", 0, max_wait=_LONG, held=True),
            fetch("b", {("orders", 1): 0, ORDERS: 0}, max_wait=_LONG, held=True),
            fetch("c", {("orders", 1): 0}, max_wait=_LONG, held=True),
            store("a"),
            Await("a"),
            Await("b"),
            Look(),
            store(to={("orders", 1): batch("b")}),
            Await("c"),
        ),
        profiles=_EVERY,
        topics=_SEVERAL,
    ),
    Transcript(
        "fetch: waits for the minimum size",
        (
            fetch("a", _ALL, max_wait=_LONG, min_bytes=3_000, held=True),
            store(to={ORDERS: batch(f"0{_KILO}")}),
            Look(),
            store(to={("orders", 1): batch(f"0{_KILO}")}),
            Look(),
            store(to={("orders", 2): batch(f"0{_KILO}")}),
            Await("a"),
            # Bytes beyond a partition's limit do not count,
            fetch("a", {at: At(0, max_bytes=1_000) for at in _ALL}, max_wait=_LONG, min_bytes=3_001, held=True),
            Look(),
            store(to={ORDERS: batch(f"0{_KILO}")}),
            Look(),
            # nor do bytes beyond the limit of the whole response.
            fetch("b", _ALL, max_wait=_LONG, min_bytes=3_000, max_bytes=1_500, held=True),
            fetch("c", 0, max_wait=_LONG, min_bytes=1_000, max_bytes=100, held=True),
            fetch("d", 2, max_wait=_LONG, min_bytes=0),
        ),
        profiles=_SOME,
        topics=_SEVERAL,
    ),
    Transcript(
        "fetch: waits for the maximum time",
        (
            store(to={("orders", 1): batch("a")}),
            fetch("a", 0, max_wait=_SHORT, held=True),
            fetch("b", {("orders", 1): 0}, max_wait=_SHORT, min_bytes=1_000, held=True),
            Await("a"),
            Await("b"),
            fetch("c", 0, max_wait=-1),
        ),
        profiles=_SOME,
        topics=_SEVERAL,
    ),
    Transcript(
        "fetch: waits while records are deleted",
        (
            store("a", "b"),
            fetch("a", 2, max_wait=_LONG, held=True),
            fetch("b", 1, max_wait=_LONG, min_bytes=1_000, held=True),
            DeleteRecords("orders", 0, 2),
            Look(),
            store("c"),
            Await("a"),
        ),
        profiles=("lowest", "4.1"),
        topics=_TOPICS,
    ),
    Transcript(
        "fetch: while the topic is deleted",
        (
            store("a"),
            fetch("a", 1, max_wait=_LONG, held=True),
            DeleteTopic("orders"),
            Await("a"),
            fetch("a", 1),
        ),
        profiles=_SOME,
        topics=_TOPICS,
    ),
    Transcript(
        "fetch: of a topic that was recreated",
        (
            store("a", "b"),
            DeleteTopic("orders", recreate=True),
            fetch("a", 0),
            fetch("a", 1),
            store("c"),
            fetch("a", 0),
            fetch("a", 0, recreated=True),
        ),
        profiles=("lowest", "3.1", "4.1"),
        topics={"orders": 1},
    ),
    Transcript(
        "fetch: within limits",
        (
            *_STORED,
            _limited(MIB),
            _limited(2_140),
            _limited(1_070),
            _limited(1_069),
            _limited(1),
            _limited(0),
            _limited(MIB, 2_140),
            _limited(MIB, 3_210),
            _limited(1_070, 2_140),
            _limited(MIB, 1_070),
            _limited(MIB, 1),
            _limited(MIB, 0),
            _limited(1, 1),
        ),
        profiles=("lowest", "2.7", "4.1"),
        topics=_SEVERAL,
    ),
    Transcript(
        "fetch: within limits that lie in the middle of a batch",
        (*_STORED, _limited(1_500), _limited(MIB, 2_500), _limited(1_100, 2_200), _limited(MIB, 2_141)),
        profiles=("lowest", "2.7", "4.1"),
        topics=_SEVERAL,
    ),
    Transcript(
        "fetch: a first batch that is larger than all limits",
        (
            store(to={("orders", 1): batch("y" * 5_000), ("orders", 2): batch("z" * 5_000)}),
            fetch("a", {at: At(0, max_bytes=100) for at in _ALL}, max_bytes=100),
            fetch("a", {at: At(0, max_bytes=100) for at in reversed(_ALL)}, max_bytes=100),
            fetch("a", {ORDERS: At(7), ("orders", 2): At(0, max_bytes=100)}, max_bytes=100),
            fetch("a", {("orders", 1): At(1), ("orders", 2): At(0, max_bytes=100)}, max_bytes=100),
        ),
        profiles=_EVERY,
        topics=_SEVERAL,
    ),
    Transcript(
        "fetch: one partition twice",
        (
            store("a"),
            store("b"),
            fetch("a", {ORDERS: 0, ("orders", 1): 0}, also={ORDERS: 1}),
            fetch("a", {ORDERS: 1, ("orders", 1): 0}, also={ORDERS: 7}),
        ),
        profiles=_SOME,
        topics=_SEVERAL,
    ),
    Transcript(
        "fetch: with the leader's epoch, and with another",
        (
            store("a"),
            fetch("a", At(1, epoch=1), max_wait=_LONG),
            fetch("a", {ORDERS: At(0, epoch=0), ("orders", 1): At(0, epoch=7)}, max_wait=_LONG),
            fetch("a", At(7, epoch=1)),
            fetch("b", At(1, epoch=0), max_wait=_LONG, held=True),
            fetch("c", At(1, epoch=-1), max_wait=_LONG, held=True),
            store("b"),
            Await("b"),
            Await("c"),
        ),
        profiles=_WITH_EPOCHS,
        topics=_SEVERAL,
    ),
    Transcript(
        "fetch: after the leader has moved",
        (
            *_EPOCHS,
            fetch("a", 0, broker=1),
            fetch("a", 3, broker=1),
            *(fetch("a", At(0, epoch=epoch), broker=1) for epoch in (0, 2, 3, 4)),
            *(fetch("a", At(5, epoch=epoch), broker=1, max_wait=_LONG) for epoch in (2, 4)),
        ),
        profiles=_WITH_EPOCHS,
        topics=_TOPICS,
        brokers=3,
    ),
    Transcript(
        "fetch: while the leader moves",
        (
            store("a"),
            fetch("a", 1, max_wait=_LONG, held=True),
            fetch("b", At(1, epoch=0), max_wait=_LONG, held=True),
            fetch("c", {ORDERS: 1, ("unknown", 0): 0}, max_wait=_LONG, held=True),
            MoveLeader("orders", 0, 1),
            Look(),
            store("b", broker=1),
            Await("a"),
            Await("b"),
            Await("c"),
        ),
        profiles=_EVERY,
        topics=_TOPICS,
        brokers=3,
    ),
    Transcript(
        "fetch: from a log that has diverged from the reader's",
        (
            *_EPOCHS,
            *(
                fetch("a", At(offset, last_epoch=epoch), broker=1, max_wait=_LONG)
                for offset, epoch in [(2, 0), (3, 0), (4, 0), (1, 0), (3, 1), (4, 1), (3, 2), (4, 2), (0, 1), (4, 3)]
            ),
            *(fetch("a", At(offset, last_epoch=3), broker=1) for offset in (5, 6)),
            fetch("a", At(5, last_epoch=4), broker=1),
            fetch("a", At(5, epoch=2, last_epoch=0), broker=1),
            fetch("a", {ORDERS: At(4, last_epoch=0), ("orders", 1): 0}, broker=1, max_wait=_LONG),
            DeleteRecords("orders", 0, 3),
            *(
                fetch("a", At(offset, last_epoch=epoch), broker=1, max_wait=_LONG)
                for offset, epoch in [(3, 0), (4, 0), (3, 1), (2, 1), (4, 3), (0, 0)]
            ),
        ),
        profiles=("2.7", "3.1", "4.1"),
        topics=_SEVERAL,
        brokers=3,
    ),
)
