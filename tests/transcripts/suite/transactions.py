"""Transactions as readers see them (KIP-98): the last stable offset, and the aborted transactions."""

from __future__ import annotations

from sarameya.protocol.versions import Api
from tests.transcripts.batches import NOON
from tests.transcripts.log_requests import (
    EARLIEST,
    LATEST,
    MAX_TIMESTAMP,
    ORDERS,
    READ_COMMITTED,
    At,
    fetch,
    list_offsets,
    next_fetch,
    open_session,
    store,
)
from tests.transcripts.script import (
    Await,
    DeleteRecords,
    EndTransaction,
    InTransaction,
    Look,
    MoveLeader,
    Step,
    Transcript,
)
from tests.transcripts.versions import every

_EVERY = every(Api.FETCH)
_SOME = ("lowest", "2.7", "3.1", "4.1")
_TOPICS = {"orders": 1}
_SEVERAL = {"orders": 2}

_LONG = 15_000
_WAYS = (EARLIEST, LATEST, MAX_TIMESTAMP, NOON)


def _write(by: str, *values: str, partition: int = 0) -> Step:
    return InTransaction(by, "orders", partition, values)


def _both(*offsets: int) -> tuple[Step, ...]:
    return tuple(fetch("a", offset, isolation=isolation) for offset in offsets for isolation in (0, READ_COMMITTED))


TRANSCRIPTS = (
    Transcript(
        "transactions: an open one, a committed one, an aborted one",
        (
            store("a"),
            _write("p", "b", "c"),
            *_both(0, 1),
            EndTransaction("p", commits=True),
            *_both(0, 4),
            _write("p", "d"),
            store("e"),
            *_both(4),
            EndTransaction("p", commits=False),
            *_both(0, 4, 5, 6, 7),
        ),
        profiles=_EVERY,
        topics=_TOPICS,
    ),
    Transcript(
        "transactions: several at once",
        (
            _write("p", "a"),
            _write("q", "b"),
            _write("p", "c"),
            _write("r", "d"),
            store("e"),
            *_both(0),
            EndTransaction("q", commits=False),
            *_both(0),
            EndTransaction("p", commits=True),
            *_both(0, 3),
            EndTransaction("r", commits=False),
            *_both(0, 2, 3, 4, 5, 8),
            _write("p", "f"),
            EndTransaction("p", commits=False),
            *_both(0, 8),
        ),
        profiles=_SOME,
        topics=_TOPICS,
    ),
    Transcript(
        "transactions: the log end for each isolation level",
        (
            store("a"),
            *(list_offsets("a", way, isolation=READ_COMMITTED) for way in _WAYS),
            _write("p", "b"),
            store("c"),
            *(list_offsets("a", way, isolation=isolation) for way in _WAYS for isolation in (0, READ_COMMITTED)),
            EndTransaction("p", commits=False),
            *(list_offsets("a", way, isolation=isolation) for way in _WAYS for isolation in (0, READ_COMMITTED)),
        ),
        profiles=("0.11", "2.1", "3.1", "4.1"),
        topics=_TOPICS,
    ),
    Transcript(
        "transactions: a committed read waits for the end of a transaction",
        (
            _write("p", "a"),
            fetch("a", 0, isolation=READ_COMMITTED, max_wait=_LONG, held=True),
            fetch("b", 0, max_wait=_LONG),
            store("b"),
            Look(),
            EndTransaction("p", commits=True),
            Await("a"),
            fetch("a", 3, isolation=READ_COMMITTED, max_wait=_LONG, held=True),
            _write("p", "c"),
            Look(),
            EndTransaction("p", commits=False),
            Await("a"),
        ),
        profiles=_SOME,
        topics=_TOPICS,
    ),
    Transcript(
        "transactions: beyond what has ended",
        (
            _write("p", "a", "b"),
            store("c"),
            *(fetch("a", offset, isolation=READ_COMMITTED) for offset in (1, 2, 3, 4)),
            fetch("a", At(0, max_bytes=1), isolation=READ_COMMITTED),
            EndTransaction("p", commits=False),
            fetch("a", At(0, max_bytes=1), isolation=READ_COMMITTED),
            fetch("a", At(2, max_bytes=1), isolation=READ_COMMITTED),
        ),
        profiles=_SOME,
        topics=_TOPICS,
    ),
    Transcript(
        "transactions: each partition has its own",
        (
            _write("p", "a"),
            _write("p", "b", partition=1),
            _write("q", "c", partition=1),
            EndTransaction("p", commits=False),
            fetch("a", {ORDERS: 0, ("orders", 1): 0}, isolation=READ_COMMITTED),
            EndTransaction("q", commits=True),
            fetch("a", {ORDERS: 0, ("orders", 1): 0}, isolation=READ_COMMITTED),
        ),
        profiles=_SOME,
        topics=_SEVERAL,
    ),
    Transcript(
        "transactions: aborted ones without records are not returned",
        (
            _write("p", "a"),
            EndTransaction("p", commits=False),
            _write("p", "b"),
            EndTransaction("p", commits=False),
            DeleteRecords("orders", 0, 2),
            *_both(2),
            DeleteRecords("orders", 0, 4),
            *_both(4),
        ),
        profiles=_SOME,
        topics=_TOPICS,
    ),
    Transcript(
        "transactions: in a session",
        (
            store("a"),
            _write("p", "b"),
            open_session("a", {ORDERS: 0}, isolation=READ_COMMITTED),
            next_fetch("a", 1, {ORDERS: 1}, isolation=READ_COMMITTED),
            store("c"),
            next_fetch("a", 2, isolation=READ_COMMITTED),
            EndTransaction("p", commits=False),
            next_fetch("a", 3, isolation=READ_COMMITTED),
            next_fetch("a", 4, {ORDERS: 4}, isolation=READ_COMMITTED),
        ),
        profiles=("1.1", "2.7", "3.1", "4.1"),
        topics=_TOPICS,
    ),
    Transcript(
        "transactions: a new leader has them",
        (
            _write("p", "a"),
            EndTransaction("p", commits=False),
            _write("q", "b"),
            MoveLeader("orders", 0, 1),
            fetch("a", 0, isolation=READ_COMMITTED, broker=1),
            list_offsets("a", LATEST, isolation=READ_COMMITTED, broker=1),
        ),
        profiles=_SOME,
        topics=_TOPICS,
        brokers=3,
    ),
)
