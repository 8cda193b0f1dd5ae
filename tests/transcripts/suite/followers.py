"""Reads from the nearest replica (KIP-392): the replica that a leader chooses, and the responses of followers."""

from __future__ import annotations

from sarameya.protocol.versions import Api
from tests.transcripts.batches import batch
from tests.transcripts.log_requests import ORDERS, At, fetch, next_fetch, open_session, store
from tests.transcripts.script import Await, DeleteRecords, MoveLeader, Transcript
from tests.transcripts.stage import RACKS
from tests.transcripts.versions import every

_EVERY = every(Api.FETCH, 11)
"""A profile for each version with racks."""
_SOME = ("2.3", "2.7", "4.1")
_TOPICS = {"orders": 1}
_SEVERAL = {"orders": 2}

_LONG = 15_000


TRANSCRIPTS = (
    Transcript(
        "followers: the leader sends readers to the replica in their rack",
        (
            store("a", "b"),
            *(fetch("a", 0, rack=rack) for rack in (*RACKS, "rack-7", "")),
            fetch("a", 2, rack=RACKS[1]),
            fetch("a", 2, rack=RACKS[1], max_wait=_LONG, min_bytes=1000),
        ),
        profiles=_EVERY,
        topics=_TOPICS,
        brokers=3,
    ),
    Transcript(
        "followers: requests that the leader answers itself",
        (
            store("a", "b"),
            fetch("a", 3, rack=RACKS[1]),
            fetch("a", -1, rack=RACKS[1]),
            fetch("a", At(0, epoch=7), rack=RACKS[1]),
            fetch("a", At(0, epoch=0), rack=RACKS[1]),
            fetch("a", {ORDERS: 0, ("orders", 1): 0}, rack=RACKS[1]),
            fetch("a", {("orders", 2): 0, ("unknown", 0): 0}, rack=RACKS[1]),
        ),
        profiles=_EVERY,
        topics=_SEVERAL,
        brokers=3,
    ),
    Transcript(
        "followers: a follower answers",
        (
            store("a", "b"),
            *(fetch("a", 0, rack=rack, broker=1, max_wait=_LONG) for rack in (RACKS[1], RACKS[2], "")),
            fetch("a", At(0, epoch=0), broker=2, max_wait=_LONG),
            fetch("a", At(0, epoch=1), broker=2),
            fetch("a", 2, rack=RACKS[1], broker=1, max_wait=_LONG, held=True),
            store("c"),
            Await("a"),
            fetch("a", -1, broker=1),
            fetch("a", 7, broker=1),
            DeleteRecords("orders", 0, 2),
        ),
        profiles=_EVERY,
        topics=_TOPICS,
        brokers=3,
    ),
    Transcript(
        "followers: serve no fetches in versions without racks",
        (store("a", "b"), fetch("a", 0, broker=1), fetch("a", {("orders", 1): 0, ORDERS: 0}, broker=1)),
        profiles=every(Api.FETCH, last=10),
        topics=_SEVERAL,
        brokers=3,
    ),
    Transcript(
        "followers: in a session, each time",
        (
            store("a"),
            open_session("a", {ORDERS: 0, ("orders", 1): 0}, rack=RACKS[2]),
            next_fetch("a", 1, rack=RACKS[2]),
            store(to={ORDERS: batch("b")}),
            next_fetch("a", 2, rack=RACKS[2]),
            next_fetch("a", 3, forgotten=[ORDERS], rack=RACKS[2]),
            next_fetch("a", 4, {ORDERS: 0}),
            next_fetch("a", 5, {ORDERS: 2}),
        ),
        profiles=_SOME,
        topics=_SEVERAL,
        brokers=3,
    ),
    Transcript(
        "followers: in a session with a follower",
        (
            store("a"),
            open_session("a", {ORDERS: 0}, rack=RACKS[1], broker=1, max_wait=_LONG),
            next_fetch("a", 1, {ORDERS: 1}, rack=RACKS[1], broker=1, max_wait=_LONG, held=True),
            store("b"),
            Await("a"),
            next_fetch("a", 2, {ORDERS: 2}, rack=RACKS[1], broker=1),
        ),
        profiles=_SOME,
        topics=_TOPICS,
        brokers=3,
    ),
    Transcript(
        "followers: a follower that leads now",
        (
            store("a"),
            MoveLeader("orders", 0, 1),
            # A new leader sends readers to a follower only after that follower has fetched from it.
            fetch("a", 0, rack=RACKS[1], broker=1),
            fetch("a", At(0, epoch=0), rack=RACKS[1], broker=1),
            fetch("a", 0, rack=RACKS[0], max_wait=_LONG),
            fetch("a", At(0, epoch=0), rack=RACKS[0]),
            fetch("a", At(0, epoch=1), rack=RACKS[0], max_wait=_LONG),
        ),
        profiles=_SOME,
        topics=_TOPICS,
        brokers=3,
    ),
)
