"""Fetch sessions (KIP-227): readers and brokers omit partitions that have not changed."""

from __future__ import annotations

from tests.transcripts.batches import batch
from tests.transcripts.log_requests import MIB, ORDERS, At, fetch, next_fetch, open_session, store
from tests.transcripts.script import Await, DeleteRecords, DeleteTopic, FetchSession, Look, MoveLeader, Transcript

_EVERY = ("1.1", "2.0", "2.1", "2.2", "2.3", "2.7", "3.1", "3.4", "3.5", "3.7", "3.9", "4.1")
"""A profile for each version with sessions."""
_SOME = ("1.1", "2.7", "3.1", "4.1")
"""The first profile with sessions, with compact encoding, with topic ids, and the newest."""
_TOPICS = {"orders": 3, "returns": 1}

_LONG = 15_000

_P1, _P2, _RETURNS = ("orders", 1), ("orders", 2), ("returns", 0)
_TWO = {ORDERS: 0, _P1: 0}
_KILO = "x" * 999


TRANSCRIPTS = (
    Transcript(
        "fetch sessions: a new one, and requests without changes",
        (
            store("a"),
            open_session("a", _TWO),
            next_fetch("a", 1, {ORDERS: 1}),
            next_fetch("a", 2),
            store(to={_P1: batch("b")}),
            next_fetch("a", 3),
            next_fetch("a", 4),
            next_fetch("a", 5, {_P1: 1}),
            next_fetch("a", 6),
        ),
        profiles=_EVERY,
        topics=_TOPICS,
    ),
    Transcript(
        "fetch sessions: a response waits for a change",
        (
            open_session("a", _TWO),
            next_fetch("a", 1, max_wait=_LONG, held=True),
            store("a"),
            Await("a"),
            next_fetch("a", 2, {ORDERS: 1}, max_wait=_LONG, held=True),
            store(to={_P1: batch("b")}),
            Await("a"),
            next_fetch("a", 3, {_P1: 1}, max_wait=10_000, held=True),
            Await("a"),
        ),
        profiles=_EVERY,
        topics=_TOPICS,
    ),
    Transcript(
        "fetch sessions: partitions come and go, and change their position",
        (
            store("a", "b"),
            store(to={_P2: batch("c"), _RETURNS: batch("d")}),
            open_session("a", {ORDERS: 0}),
            next_fetch("a", 1, {ORDERS: 2, _P2: 0}),
            next_fetch("a", 2, {_RETURNS: 0, _P2: 1}),
            next_fetch("a", 3, {_RETURNS: 1}, forgotten=[ORDERS]),
            store("e"),
            next_fetch("a", 4),
            next_fetch("a", 5, {ORDERS: 1}),
            next_fetch("a", 6, {ORDERS: 7}),
            next_fetch("a", 7),
            next_fetch("a", 8, {ORDERS: 3}),
            next_fetch("a", 9, forgotten=[_P1, ("unknown", 0), _RETURNS]),
            next_fetch("a", 10, {_P2: 1}, forgotten=[_P2]),
            store(to={_P2: batch("f"), _RETURNS: batch("g")}),
            next_fetch("a", 11),
        ),
        profiles=_EVERY,
        topics=_TOPICS,
    ),
    Transcript(
        "fetch sessions: one whose last partition is forgotten ends",
        (
            open_session("a", {ORDERS: 0}),
            next_fetch("a", 1, forgotten=[ORDERS]),
            next_fetch("a", 2),
            open_session("b", {ORDERS: 0}),
            next_fetch("b", 1, {_P1: 0}, forgotten=[ORDERS]),
            next_fetch("b", 2, forgotten=[_P1], max_wait=_LONG),
            next_fetch("b", 3, {_P1: 0}),
        ),
        profiles=_SOME,
        topics=_TOPICS,
    ),
    Transcript(
        "fetch sessions: epochs out of order",
        (
            open_session("a", _TWO),
            next_fetch("a", 2),
            next_fetch("a", 1),
            next_fetch("a", 1),
            next_fetch("a", 3, {ORDERS: 7}),
            store("a"),
            next_fetch("a", 2),
            fetch("a", session=(4711, 1)),
            fetch("a", {ORDERS: 0}, session=(4711, 2)),
            fetch("a", {ORDERS: 0}, session=(0, 1)),
            fetch("a", {ORDERS: 0}, session=(-1, 1)),
        ),
        profiles=_EVERY,
        topics=_TOPICS,
    ),
    Transcript(
        "fetch sessions: one is closed",
        (
            store("a"),
            open_session("a", _TWO),
            fetch("a", {ORDERS: 0}, session=(FetchSession("a"), -1)),
            next_fetch("a", 1),
            open_session("b", _TWO),
            fetch("b", {}, session=(FetchSession("b"), -1)),
            next_fetch("b", 1),
            fetch("c", {ORDERS: 0}, session=(4711, -1)),
        ),
        profiles=_EVERY,
        topics=_TOPICS,
    ),
    Transcript(
        "fetch sessions: one is made in place of another",
        (
            open_session("a", {ORDERS: 0}),
            fetch("b", {_P1: 0}, session=(FetchSession("a"), 0)),
            next_fetch("a", 1),
            next_fetch("b", 1),
            fetch("c", {_P1: 0}, session=(4711, 0)),
            next_fetch("c", 1),
        ),
        profiles=_SOME,
        topics=_TOPICS,
    ),
    Transcript(
        "fetch sessions: one without partitions",
        (open_session("a", {}), fetch("a", {}, session=(FetchSession("a"), 1), max_wait=2_500)),
        profiles=_SOME,
        topics=_TOPICS,
    ),
    Transcript(
        "fetch sessions: another client's session",
        (
            store("a"),
            open_session("a", _TWO),
            fetch("b", {ORDERS: 1}, session=(FetchSession("a"), 1)),
            next_fetch("a", 1),
            next_fetch("a", 2),
        ),
        profiles=_SOME,
        topics=_TOPICS,
    ),
    Transcript(
        "fetch sessions: two connections use one at the same time",
        (
            open_session("a", _TWO),
            next_fetch("a", 1, max_wait=_LONG, held=True),
            fetch("b", {ORDERS: 0}, session=(FetchSession("a"), 2), max_wait=_LONG, held=True),
            store("a"),
            Await("a"),
            Await("b"),
            next_fetch("a", 3),
        ),
        profiles=_SOME,
        topics=_TOPICS,
    ),
    Transcript(
        "fetch sessions: errors are returned each time, and so is their end",
        (
            open_session("a", {ORDERS: 7, ("unknown", 0): 0, ("orders", 3): 0}),
            next_fetch("a", 1),
            next_fetch("a", 2, {ORDERS: 0}),
            next_fetch("a", 3, forgotten=[("unknown", 0)]),
            next_fetch("a", 4, forgotten=[("orders", 3)]),
            next_fetch("a", 5),
        ),
        profiles=_EVERY,
        topics=_TOPICS,
    ),
    Transcript(
        "fetch sessions: a new log start is a change, and so is a new end",
        (
            store("a", "b"),
            store("c"),
            open_session("a", {ORDERS: At(0, max_bytes=1)}),
            next_fetch("a", 1, {ORDERS: 3}),
            next_fetch("a", 2),
            DeleteRecords("orders", 0, 2),
            next_fetch("a", 3),
            next_fetch("a", 4),
            store("d"),
            next_fetch("a", 5, {ORDERS: 4}),
            next_fetch("a", 6),
        ),
        profiles=_SOME,
        topics=_TOPICS,
    ),
    Transcript(
        "fetch sessions: partitions with returned records come last next time",
        (
            *(store(to={at: batch(f"{n}{_KILO}") for at in (ORDERS, _P1, _P2)}) for n in range(2)),
            open_session("a", {at: At(0, max_bytes=MIB) for at in (ORDERS, _P1, _P2)}, max_bytes=1_070),
            *(next_fetch("a", n, max_bytes=1_070) for n in range(1, 6)),
            next_fetch("a", 6, {_P1: 1}, max_bytes=2_140),
            next_fetch("a", 7, max_bytes=2_140),
        ),
        profiles=_SOME,
        topics=_TOPICS,
    ),
    Transcript(
        "fetch sessions: topics by name, and then by id",
        (
            open_session("a", _TWO, version=12),
            next_fetch("a", 1, version=13),
            next_fetch("a", 1, version=12),
            open_session("b", _TWO, version=13),
            next_fetch("b", 1, version=12),
            next_fetch("b", 1, version=13),
        ),
        profiles=("4.1",),
        topics=_TOPICS,
    ),
    Transcript(
        "fetch sessions: a topic that is deleted and recreated",
        (
            store("a", "b"),
            open_session("a", {ORDERS: 0, _RETURNS: 0}),
            next_fetch("a", 1, {ORDERS: 2}),
            DeleteTopic("orders"),
            next_fetch("a", 2),
            next_fetch("a", 3),
            DeleteTopic("returns", recreate=True),
            next_fetch("a", 4),
            next_fetch("a", 5),
            store(to={_RETURNS: batch("c")}),
            next_fetch("a", 6),
            next_fetch("a", 7, {_RETURNS: 0}, recreated=True),
        ),
        profiles=_SOME,
        topics=_TOPICS,
    ),
    Transcript(
        "fetch sessions: a topic that is made later",
        (
            open_session("a", {("late", 0): 0, ORDERS: 0}),
            next_fetch("a", 1),
            DeleteTopic("late", recreate=True),
            next_fetch("a", 2),
            store(to={("late", 0): batch("a")}),
            next_fetch("a", 3),
        ),
        profiles=("1.1", "2.7"),
        topics=_TOPICS,
    ),
    Transcript(
        "fetch sessions: while the leader moves",
        (
            store("a"),
            open_session("a", {ORDERS: At(1, epoch=0)}),
            next_fetch("a", 1, max_wait=_LONG, held=True),
            MoveLeader("orders", 0, 1),
            Await("a"),
            next_fetch("a", 2),
            MoveLeader("orders", 0, 0),
            next_fetch("a", 3),
            next_fetch("a", 4, {ORDERS: At(1, epoch=2)}),
            next_fetch("a", 5, {ORDERS: At(1, epoch=3)}),
            Look(),
        ),
        profiles=("2.1", "2.7", "3.1", "3.7", "4.1"),
        topics=_TOPICS,
        brokers=3,
    ),
)
