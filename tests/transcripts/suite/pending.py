"""Pending members: clients that have received a member id and have not joined with it yet (KIP-394)."""

from __future__ import annotations

from tests.transcripts.group_requests import (
    Await,
    Group,
    Id,
    Look,
    Sleep,
    commit,
    describe,
    enter,
    heartbeat,
    join,
    leave,
    list_groups,
    single,
    sync,
)
from tests.transcripts.script import Transcript
from tests.transcripts.versions import ALL, since

_SHORT = 3_000

TRANSCRIPTS = (
    Transcript(
        "a pending member is no member yet",
        (join("a", held=True), describe(), list_groups(), heartbeat("a"), join("a"), describe()),
        profiles=ALL,
    ),
    Transcript(
        "of two pending members one joins, and the rebalance waits for the other",
        (
            join("a", held=True),
            join("b", held=True),
            join("a", held=True),
            describe(),
            join("b", held=True),
            Await("a"),
            Look(),
        ),
        profiles=since("2.3"),
    ),
    Transcript(
        "a rebalance waits for a pending member",
        (
            *single("a"),
            join("b", held=True),
            join("a", held=True),
            describe(),
            join("b", held=True),
            Await("a"),
            Look(),
        ),
    ),
    Transcript(
        "a rebalance does not wait for ever for a pending member",
        (
            *single("a"),
            join("b", session=_SHORT, held=True),
            join("a", held=True),
            Sleep(3.6),
            Look(),
            describe(),
            join("b"),
        ),
        profiles=since("2.3"),
    ),
    Transcript(
        "a member id is valid in one group only",
        (join("a"), join("a", group=Group("other")), join("a", held=True)),
        profiles=since("2.3"),
    ),
    Transcript(
        "an unused member id expires with the session timeout",
        (join("a", session=_SHORT), Sleep(3.6), join("a"), describe()),
        profiles=since("2.3"),
    ),
    Transcript(
        "a member id is valid on every connection",
        (
            join("a"),
            join("b", member=Id("a")),
            sync("a", {"a": b"all"}, generation=1, protocol_type="consumer", protocol_name="range"),
            join("a"),
        ),
        profiles=since("2.3"),
    ),
    Transcript(
        "a pending member joins as an instance",
        (join("a"), join("a", instance="one"), join("a")),
        profiles=since("2.3"),
    ),
    Transcript(
        "a pending member joins without a common protocol",
        (*single("a"), join("b"), join("b", protocols=("sticky",)), join("b", protocol_type="connect"), describe()),
        profiles=since("2.3"),
    ),
    Transcript(
        "a pending member leaves",
        (join("a"), leave("a"), leave("a"), join("a"), describe()),
        profiles=since("2.3"),
    ),
    Transcript(
        "a rebalance continues when the pending member leaves",
        (*single("a"), join("b"), join("a", held=True), leave("b"), Await("a")),
        profiles=since("2.3"),
    ),
    Transcript(
        "a pending member leaves while the others sync",
        (
            *single("a"),
            enter("b", held=True),
            enter("a"),
            Await("b"),
            join("c", held=True),
            sync("b", held=True),
            leave("c"),
            Look(),
        ),
        profiles=since("2.3"),
    ),
    Transcript(
        "a pending member commits, with a generation and without",
        (join("a"), commit("a", generation=0), commit("a", generation=-1), commit("b", generation=-1)),
        profiles=since("2.3"),
    ),
    Transcript(
        "a group with pending members only is empty",
        (join("a"), join("b"), describe(), list_groups(), leave("a"), leave("b"), describe(), enter("c"), describe()),
        profiles=since("2.3"),
    ),
)
