"""Starts and ends of logs, and offsets by time (KIP-79, KIP-734)."""

from __future__ import annotations

from sarameya.protocol.records.compression import Codec
from sarameya.protocol.versions import Api
from tests.transcripts.batches import NOON, batch
from tests.transcripts.log_requests import (
    EARLIEST,
    EARLIEST_LOCAL,
    LATEST,
    LATEST_TIERED,
    MAX_TIMESTAMP,
    ORDERS,
    READ_COMMITTED,
    list_offsets,
    store,
)
from tests.transcripts.script import DeleteRecords, MoveLeader, Step, Transcript
from tests.transcripts.versions import every

_EVERY = every(Api.LIST_OFFSETS)
_SOME = ("lowest", "2.1", "3.1", "4.0")
"""The oldest profile, the first with leader epochs, the first with the offset of the highest timestamp, the newest."""
_TOPICS = {"orders": 1}
_SEVERAL = {"orders": 3}

_WAYS = (EARLIEST, LATEST, MAX_TIMESTAMP, 0, NOON)


def _times(*deltas: int) -> tuple[Step, ...]:
    return tuple(list_offsets("a", NOON + delta) for delta in deltas)


TRANSCRIPTS = (
    Transcript(
        "list offsets: an empty log",
        tuple(list_offsets("a", way) for way in _WAYS),
        profiles=_EVERY,
        topics=_TOPICS,
    ),
    Transcript(
        "list offsets: where a log begins and ends",
        (store("a", "b"), store("c"), *(list_offsets("a", way) for way in _WAYS)),
        profiles=_EVERY,
        topics=_TOPICS,
    ),
    Transcript(
        "list offsets: by time",
        (
            store(to={ORDERS: batch("a", "b", "c", times=(NOON + 10, NOON + 30, NOON + 20))}),
            store(to={ORDERS: batch("d", "e", times=(NOON + 5, NOON + 40), codec=Codec.LZ4)}),
            store(to={ORDERS: batch("f", times=NOON + 15)}),
            *_times(-1, 10, 11, 20, 25, 30, 31, 40, 41),
            list_offsets("a", MAX_TIMESTAMP),
        ),
        profiles=_EVERY,
        topics=_TOPICS,
    ),
    Transcript(
        "list offsets: the first of those with the highest timestamp",
        (
            store(to={ORDERS: batch("a", "b", "c", times=(NOON, NOON + 9, NOON + 9))}),
            store(to={ORDERS: batch("d", "e", times=NOON + 9, codec=Codec.GZIP)}),
            list_offsets("a", MAX_TIMESTAMP),
            list_offsets("a", NOON + 9),
        ),
        profiles=("3.1", "4.0"),
        topics=_TOPICS,
    ),
    Transcript(
        "list offsets: records without a time cannot be found by it",
        (
            store(to={ORDERS: batch("a", "b", times=-1)}),
            list_offsets("a", 0),
            list_offsets("a", MAX_TIMESTAMP),
            store(to={ORDERS: batch("c", times=0)}),
            list_offsets("a", 0),
            list_offsets("a", MAX_TIMESTAMP),
        ),
        profiles=_SOME,
        topics=_TOPICS,
    ),
    Transcript(
        "list offsets: a log that begins later",
        (
            store(to={ORDERS: batch("a", "b", "c", times=(NOON, NOON + 9, NOON + 5))}),
            store(to={ORDERS: batch("d", times=NOON + 7)}),
            DeleteRecords("orders", 0, 2),
            list_offsets("a", EARLIEST),
            *_times(0, 6, 8),
            list_offsets("a", MAX_TIMESTAMP),
            DeleteRecords("orders", 0, 4),
            list_offsets("a", EARLIEST),
            *_times(0),
            list_offsets("a", MAX_TIMESTAMP),
            list_offsets("a", LATEST),
        ),
        profiles=_SOME,
        topics=_TOPICS,
    ),
    Transcript(
        "list offsets: where tiered storage begins and ends",
        (store("a"), list_offsets("a", EARLIEST_LOCAL), list_offsets("a", LATEST_TIERED)),
        profiles=("3.1", "3.4", "3.9", "4.0"),
        topics=_TOPICS,
    ),
    Transcript(
        "list offsets: undefined special times",
        (store("a"), *(list_offsets("a", time) for time in (-6, -7, -100, -(2**63), 2**63 - 1))),
        profiles=_SOME,
        topics=_TOPICS,
    ),
    Transcript(
        "list offsets: several partitions, and missing ones",
        (
            store(to={("orders", 1): batch("a"), ("orders", 2): batch("b", "c")}),
            list_offsets(
                "a", {("orders", 2): LATEST, ("unknown", 0): LATEST, ("orders", 1): EARLIEST, ("orders", 3): LATEST}
            ),
            list_offsets("a", {("orders", -1): LATEST, ("orders", 2): NOON}),
            list_offsets("a", {}),
        ),
        profiles=_SOME,
        topics=_SEVERAL,
    ),
    Transcript(
        "list offsets: one partition twice",
        (store("a"), list_offsets("a", {ORDERS: LATEST}, also={ORDERS: EARLIEST, ("orders", 1): LATEST})),
        profiles=_SOME,
        topics=_SEVERAL,
    ),
    Transcript(
        "list offsets: with and without transactions, where there are none",
        (
            store("a", "b"),
            *(list_offsets("a", way, isolation=READ_COMMITTED) for way in _WAYS),
        ),
        profiles=("0.11", "3.1"),
        topics=_TOPICS,
    ),
    Transcript(
        "list offsets: with the leader's epoch, and with another",
        (
            store("a"),
            *(list_offsets("a", way, epoch=epoch) for epoch in (0, 1, -1, -2) for way in (LATEST, EARLIEST)),
            list_offsets("a", NOON, epoch=1),
        ),
        profiles=("2.1", "4.0"),
        topics=_TOPICS,
    ),
    Transcript(
        "list offsets: after the leader has moved",
        (
            store(to={ORDERS: batch("a", times=NOON)}),
            MoveLeader("orders", 0, 1),
            *(list_offsets("a", way, broker=1) for way in _WAYS),
            store(to={ORDERS: batch("b", times=NOON + 1)}, broker=1),
            *(list_offsets("a", way, broker=1) for way in (*_WAYS, NOON + 1)),
            *(list_offsets("a", LATEST, epoch=epoch, broker=1) for epoch in (0, 1, 2)),
        ),
        profiles=("2.1", "3.1", "4.0"),
        topics=_TOPICS,
        brokers=3,
    ),
    Transcript(
        "list offsets: followers refuse the request",
        (
            store("a"),
            *(list_offsets("a", way, broker=2) for way in _WAYS),
            *(list_offsets("a", LATEST, epoch=epoch, broker=2) for epoch in (0, 1)),
            MoveLeader("orders", 0, 1),
            list_offsets("a", LATEST),
            *(list_offsets("a", LATEST, epoch=epoch) for epoch in (0, 1, 2)),
        ),
        profiles=_SOME,
        topics=_TOPICS,
        brokers=3,
    ),
)
