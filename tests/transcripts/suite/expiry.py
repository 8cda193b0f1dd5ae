"""Effects of time: sessions, rebalances and syncs that expire. Steps may be two seconds late without an effect."""

from __future__ import annotations

from tests.transcripts.group_requests import (
    Await,
    Id,
    Look,
    Sleep,
    commit,
    describe,
    enter,
    fetch_offsets,
    heartbeat,
    join,
    pair,
    single,
    sync,
)
from tests.transcripts.script import Transcript

SHORT = 3_000
"""A session timeout in milliseconds that allows for some steps on a busy machine."""
LONG_ENOUGH = 3.6
"""Seconds after which a short session has expired."""

_PROFILES = ("2.1", "3.9")

TRANSCRIPTS = (
    Transcript(
        "a group of one whose session ends is empty, and keeps its offsets",
        (
            *single("a", session=SHORT),
            commit("a"),
            Sleep(LONG_ENOUGH),
            describe(),
            heartbeat("a"),
            commit("a"),
            sync("a"),
            join("a", session=SHORT),
            fetch_offsets("x"),
        ),
    ),
    Transcript(
        "heartbeats keep a member alive",
        (
            *single("a", session=4_000),
            Sleep(1.5),
            heartbeat("a"),
            Sleep(1.5),
            heartbeat("a"),
            Sleep(1.5),
            heartbeat("a"),
        ),
        profiles=_PROFILES,
    ),
    Transcript(
        "commits keep a member alive",
        (*single("a", session=4_000), Sleep(1.5), commit("a"), Sleep(1.5), commit("a"), Sleep(1.5), heartbeat("a")),
        profiles=_PROFILES,
    ),
    Transcript(
        "refused heartbeats keep no member alive",
        (
            *single("a", session=SHORT),
            Sleep(0.8),
            heartbeat("a", generation=7),
            Sleep(2.6),
            heartbeat("a"),
        ),
        profiles=_PROFILES,
    ),
    Transcript(
        "syncs and joins keep a member alive",
        (*single("a", session=4_000), Sleep(2.2), sync("a"), Sleep(2.2), join("a"), Sleep(1.5), heartbeat("a")),
        profiles=_PROFILES,
    ),
    Transcript(
        "a member that dies starts a rebalance",
        (
            *single("a"),
            enter("b", session=SHORT, held=True),
            enter("a"),
            Await("b"),
            sync("a", {"a": b"one", "b": b"two"}),
            sync("b"),
            Sleep(LONG_ENOUGH),
            heartbeat("a"),
            heartbeat("b"),
            describe(),
            join("a"),
            sync("a", {"a": b"all"}),
        ),
        profiles=_PROFILES,
    ),
    Transcript(
        "a leader that dies is followed by another",
        (
            *single("a", session=SHORT),
            enter("b", held=True),
            enter("a", session=SHORT),
            Await("b"),
            sync("a", {"a": b"one", "b": b"two"}),
            sync("b"),
            Sleep(LONG_ENOUGH),
            heartbeat("b"),
            join("b"),
            sync("b", {"b": b"all"}),
        ),
        profiles=_PROFILES,
    ),
    Transcript(
        "a rebalance that waits for a dead member ends with its session",
        (*single("a", session=SHORT), enter("b", held=True), Sleep(LONG_ENOUGH), Look(), describe(), heartbeat("a")),
        profiles=_PROFILES,
    ),
    Transcript(
        "a rebalance waits at most the rebalance timeout for a member that only sends heartbeats",
        (
            *single("a", rebalance=2_000, session=4_000),
            enter("b", rebalance=5_000, held=True),
            Sleep(1.0),
            heartbeat("a"),
            Sleep(1.5),
            heartbeat("a"),
            Sleep(3.5),
            heartbeat("a"),
            Look(),
        ),
        profiles=_PROFILES,
    ),
    Transcript(
        "the longest rebalance timeout counts",
        (
            *single("a", rebalance=1_000),
            enter("b", rebalance=4_000, held=True),
            Sleep(2.0),
            heartbeat("a"),
            Sleep(3.0),
            heartbeat("a"),
            Look(),
        ),
        profiles=_PROFILES,
    ),
    Transcript(
        "the leader that does not sync is taken out at the rebalance timeout",
        (
            *single("a", rebalance=4_000),
            enter("b", rebalance=4_000, held=True),
            enter("a", rebalance=4_000),
            Await("b"),
            sync("b", held=True),
            Sleep(4.5),
            heartbeat("a"),
            Look(),
            describe(),
        ),
        profiles=_PROFILES,
    ),
    Transcript(
        "a follower that does not sync is taken out at the rebalance timeout, also of a Stable group",
        (
            *single("a", rebalance=4_000),
            enter("b", rebalance=4_000, held=True),
            enter("a", rebalance=4_000),
            Await("b"),
            sync("a", {"a": b"one", "b": b"two"}),
            describe(),
            Sleep(4.5),
            heartbeat("b"),
            heartbeat("a"),
            describe(),
        ),
        profiles=_PROFILES,
    ),
    Transcript(
        "a member whose session ends in the middle of a rebalance",
        (
            *single("a"),
            enter("b", session=SHORT, held=True),
            enter("a"),
            Await("b"),
            Sleep(LONG_ENOUGH),
            heartbeat("a"),
            sync("a", {"a": b"one"}, held=True),
            describe(),
        ),
        profiles=_PROFILES,
    ),
    Transcript(
        "a member whose sync is held does not expire",
        (
            *single("a"),
            enter("b", session=SHORT, held=True),
            enter("a"),
            Await("b"),
            sync("b", held=True),
            Sleep(LONG_ENOUGH),
            sync("a", {"a": b"one", "b": b"two"}),
            Await("b"),
            heartbeat("b"),
        ),
        profiles=_PROFILES,
    ),
    Transcript(
        "a member whose join is held does not expire",
        (
            *pair(),
            join("b", session=SHORT, protocols=("range", "sticky"), held=True),
            Sleep(LONG_ENOUGH),
            join("a"),
            Await("b"),
            heartbeat("b"),
        ),
        profiles=_PROFILES,
    ),
    Transcript(
        "a new session timeout counts from the join that brings it",
        (
            *single("a"),
            join("a", session=SHORT),
            sync("a", {"a": b"all"}),
            Sleep(LONG_ENOUGH),
            heartbeat("a"),
        ),
        profiles=_PROFILES,
    ),
    Transcript(
        "both die, and the next member starts a new generation",
        (
            *single("a", session=SHORT),
            enter("b", session=SHORT, held=True),
            enter("a", session=SHORT),
            Await("b"),
            sync("a", {"a": b"one", "b": b"two"}),
            Sleep(LONG_ENOUGH),
            describe(),
            heartbeat("b"),
            enter("c"),
            join("d", member=Id("a")),
        ),
        profiles=_PROFILES,
    ),
)
