"""Idempotent producers (KIP-98, KIP-360): batches that are repeated, out of sequence, or of an old epoch."""

from __future__ import annotations

from typing import Any

from sarameya.protocol.versions import Api
from tests.transcripts.batches import Batch, batch
from tests.transcripts.log_requests import LATEST, ORDERS, fetch, init_producer, list_offsets, produce
from tests.transcripts.script import DeleteRecords, MoveLeader, Producer, Send, Transcript
from tests.transcripts.versions import every

_EVERY = every(Api.PRODUCE)
_SOME = ("lowest", "2.4", "3.9", "4.1")
_TOPICS = {"orders": 1}
_SEVERAL = {"orders": 2}

_LAST = 2**31 - 1
"""The last sequence number; the next one is zero."""


def _batch(sequence: int, *values: str, by: str = "a", epoch: Any = 0) -> Batch:
    return batch(*values, producer=Producer(by), epoch=epoch, sequence=sequence)


def _send(sequence: int, *values: str, by: str = "a", epoch: Any = 0, **where: Any) -> Send:
    return produce(by, to={ORDERS: _batch(sequence, *values, by=by, epoch=epoch)}, **where)


TRANSCRIPTS = (
    Transcript(
        "producers: ids are given out, one after the other",
        (
            init_producer("a"),
            init_producer("b"),
            init_producer("a"),
            init_producer("a", producer_id=Producer("a"), producer_epoch=Producer("a", "epoch")),
        ),
        profiles=("lowest", "2.0", "2.4", "3.9"),
        topics=_TOPICS,
    ),
    Transcript(
        "producers: a repeated batch is stored once",
        (
            init_producer("a"),
            _send(0, "a", "b"),
            _send(2, "c"),
            _send(2, "c"),
            _send(0, "a", "b"),
            _send(3, "d"),
            _send(0, "a", "b"),
            fetch("a", 0),
        ),
        profiles=_EVERY,
        topics=_TOPICS,
    ),
    Transcript(
        "producers: the last five batches are remembered",
        (
            init_producer("a"),
            *(_send(n, str(n)) for n in range(6)),
            _send(1, "1"),
            _send(0, "0"),
            _send(6, "6"),
            list_offsets("a", LATEST),
        ),
        profiles=_SOME,
        topics=_TOPICS,
    ),
    Transcript(
        "producers: records repeated in other batches are no duplicates",
        (
            init_producer("a"),
            _send(0, "a", "b"),
            _send(2, "c"),
            _send(0, "a"),
            _send(1, "b"),
            _send(1, "b", "c"),
            _send(0, "a", "b", "c"),
            _send(2, "c", "d"),
            list_offsets("a", LATEST),
        ),
        profiles=_SOME,
        topics=_TOPICS,
    ),
    Transcript(
        "producers: a batch out of sequence is refused",
        (
            init_producer("a"),
            _send(0, "a"),
            _send(2, "c"),
            _send(_LAST, "z"),
            _send(1, "b"),
            _send(2, "c"),
            list_offsets("a", LATEST),
        ),
        profiles=_EVERY,
        topics=_TOPICS,
    ),
    Transcript(
        "producers: an old epoch, and the next",
        (
            init_producer("a"),
            _send(0, "a", epoch=3),
            _send(1, "b", epoch=2),
            _send(0, "a", epoch=2),
            _send(1, "b", epoch=4),
            _send(0, "b", epoch=4),
            _send(0, "a", epoch=3),
            _send(1, "c", epoch=3),
            _send(1, "c", epoch=4),
            _send(0, "b", epoch=4),
            list_offsets("a", LATEST),
        ),
        profiles=_EVERY,
        topics=_TOPICS,
    ),
    Transcript(
        "producers: an unknown producer may start with any sequence",
        (
            init_producer("a"),
            init_producer("b"),
            _send(7, "a"),
            _send(8, "b"),
            _send(7, "a"),
            _send(_LAST - 1, "c", "d", "e", by="b", epoch=5),
            _send(1, "f", by="b", epoch=5),
            _send(_LAST - 1, "c", "d", "e", by="b", epoch=5),
            fetch("a", 0),
        ),
        profiles=_SOME,
        topics=_TOPICS,
    ),
    Transcript(
        "producers: each has its own sequence in each partition",
        (
            init_producer("a"),
            init_producer("b"),
            produce("a", to={ORDERS: _batch(0, "a"), ("orders", 1): _batch(0, "b")}),
            _send(0, "c", by="b"),
            produce("a", to={ORDERS: _batch(1, "d"), ("orders", 1): _batch(2, "e")}),
            produce("a", to={ORDERS: _batch(1, "d"), ("orders", 1): _batch(1, "e")}),
            fetch("a", {ORDERS: 0, ("orders", 1): 0}),
        ),
        profiles=_SOME,
        topics=_SEVERAL,
    ),
    Transcript(
        "producers: an id without a sequence",
        (
            init_producer("a"),
            _send(-1, "a"),
            produce("a", to={ORDERS: batch("a", producer=-1, epoch=0, sequence=0)}),
            produce("a", to={ORDERS: batch("a", producer=-1, epoch=-1, sequence=7)}),
            list_offsets("a", LATEST),
        ),
        profiles=_SOME,
        topics=_TOPICS,
    ),
    Transcript(
        "producers: a producer is not forgotten with its deleted records",
        (
            init_producer("a"),
            _send(0, "a", "b"),
            DeleteRecords("orders", 0, 2),
            _send(0, "a", "b"),
            _send(3, "d"),
            _send(2, "c"),
        ),
        profiles=_SOME,
        topics=_TOPICS,
    ),
    Transcript(
        "producers: a new leader has the sequences",
        (
            init_producer("a"),
            _send(0, "a"),
            MoveLeader("orders", 0, 2),
            _send(1, "b", broker=2),
            _send(0, "a", broker=2),
            _send(7, "c", broker=2),
            fetch("a", 0, broker=2),
        ),
        profiles=_SOME,
        topics=_TOPICS,
        brokers=3,
    ),
)
