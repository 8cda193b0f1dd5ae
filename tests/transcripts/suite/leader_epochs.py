"""End offsets of leader epochs (KIP-101, KIP-320), which readers request to detect truncated logs."""

from __future__ import annotations

from sarameya.protocol.versions import Api
from tests.transcripts.batches import batch
from tests.transcripts.log_requests import ORDERS, epoch_end, store
from tests.transcripts.script import DeleteRecords, MoveLeader, Step, Transcript
from tests.transcripts.versions import every

_EVERY = every(Api.OFFSET_FOR_LEADER_EPOCH)
_TOPICS = {"orders": 1}
_SEVERAL = {"orders": 2}

_MOVES: tuple[Step, ...] = (
    store("a", "b"),
    MoveLeader("orders", 0, 1),
    store("c", broker=1),
    MoveLeader("orders", 0, 2),
    MoveLeader("orders", 0, 1),
    store("d", "e", broker=1),
)
"""Epochs 0, 1 and 3 have records, 2 has none."""


TRANSCRIPTS = (
    Transcript(
        "leader epochs: the only epoch of a log",
        (
            epoch_end("a", 0),
            epoch_end("a", 1),
            store("a", "b"),
            epoch_end("a", 0),
            epoch_end("a", 1),
            epoch_end("a", -1),
        ),
        profiles=_EVERY,
        topics=_TOPICS,
    ),
    Transcript(
        "leader epochs: with the leader's epoch, and with another",
        (
            store("a"),
            *(epoch_end("a", 0, current=current) for current in (0, 1, -1, -2)),
            epoch_end("a", 5, current=0),
            epoch_end("a", 5, current=5),
        ),
        profiles=_EVERY,
        topics=_TOPICS,
    ),
    Transcript(
        "leader epochs: several partitions, and missing ones",
        (
            store(to={ORDERS: batch("a"), ("orders", 1): batch("b", "c")}),
            epoch_end("a", 0, of=[ORDERS, ("orders", 1), ("orders", 2), ("orders", -1), ("unknown", 0)]),
            epoch_end("a", 0, of=[]),
            epoch_end("a", 0, of=[("unknown", 0)], current=7),
        ),
        profiles=_EVERY,
        topics=_SEVERAL,
    ),
    Transcript(
        "leader epochs: an epoch whose records are gone",
        (
            store("a", "b"),
            DeleteRecords("orders", 0, 2),
            epoch_end("a", 0),
            epoch_end("a", 1),
        ),
        profiles=_EVERY,
        topics=_TOPICS,
    ),
    Transcript(
        "leader epochs: after the leader has moved",
        (*_MOVES, *(epoch_end("a", epoch, broker=1) for epoch in (-1, 0, 1, 2, 3, 4))),
        profiles=_EVERY,
        topics=_TOPICS,
        brokers=3,
    ),
    Transcript(
        "leader epochs: after the leader has moved, and nothing was written since",
        (
            store("a", "b"),
            MoveLeader("orders", 0, 1),
            *(epoch_end("a", epoch, broker=1) for epoch in (0, 1, 2)),
            MoveLeader("orders", 1, 2),
            *(epoch_end("a", epoch, of=[("orders", 1)], broker=2) for epoch in (0, 1, 2)),
        ),
        profiles=_EVERY,
        topics=_SEVERAL,
        brokers=3,
    ),
    Transcript(
        "leader epochs: after the leader has moved, and the first records have gone",
        (
            *_MOVES,
            DeleteRecords("orders", 0, 2),
            *(epoch_end("a", epoch, broker=1) for epoch in (0, 1, 2, 3)),
            DeleteRecords("orders", 0, 4),
            *(epoch_end("a", epoch, broker=1) for epoch in (0, 1, 2, 3)),
        ),
        profiles=_EVERY,
        topics=_TOPICS,
        brokers=3,
    ),
    Transcript(
        "leader epochs: readers that are behind, or ahead of their leader",
        (*_MOVES, *(epoch_end("a", epoch, current=current, broker=1) for epoch in (0, 3) for current in (0, 2, 3, 4))),
        profiles=_EVERY,
        topics=_TOPICS,
        brokers=3,
    ),
    Transcript(
        "leader epochs: followers refuse the request",
        (
            store("a"),
            *(epoch_end("a", 0, current=current, broker=2) for current in (-1, 0, 1)),
            MoveLeader("orders", 0, 1),
            *(epoch_end("a", 0, current=current) for current in (-1, 0, 1, 2)),
        ),
        profiles=_EVERY,
        topics=_TOPICS,
        brokers=3,
    ),
)
