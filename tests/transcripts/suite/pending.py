"""Members that were told their id and are to come back with it (KIP-394)."""

from __future__ import annotations

from tests.transcripts.script import Transcript
from tests.transcripts.verbs import (
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
from tests.transcripts.versions import ALL, since

_SHORT = 3_000

TRANSCRIPTS = (
    Transcript(
        "one that was told its id is no member yet",
        (join("a", held=True), describe(), list_groups(), heartbeat("a"), join("a"), describe()),
        profiles=ALL,
    ),
    Transcript(
        "two are told ids, and one comes back: the round waits for the other",
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
        "a round waits for one that was told its id",
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
        "a round does not wait for ever for one that was told its id",
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
        "an id is good for one group",
        (join("a"), join("a", group=Group("other")), join("a", held=True)),
        profiles=since("2.3"),
    ),
    Transcript(
        "an id that was not used is forgotten with the session timeout",
        (join("a", session=_SHORT), Sleep(3.6), join("a"), describe()),
        profiles=since("2.3"),
    ),
    Transcript(
        "an id is good for the one it was given to, and for once",
        (
            join("a"),
            join("b", member=Id("a")),
            sync("a", {"a": b"all"}, generation=1, protocol_type="consumer", protocol_name="range"),
            join("a"),
        ),
        profiles=since("2.3"),
    ),
    Transcript(
        "one that was told its id comes back as an instance",
        (join("a"), join("a", instance="one"), join("a")),
        profiles=since("2.3"),
    ),
    Transcript(
        "one that was told its id comes back with nothing in common",
        (*single("a"), join("b"), join("b", protocols=("sticky",)), join("b", protocol_type="connect"), describe()),
        profiles=since("2.3"),
    ),
    Transcript(
        "one that was told its id leaves",
        (join("a"), leave("a"), leave("a"), join("a"), describe()),
        profiles=since("2.3"),
    ),
    Transcript(
        "the round goes on when the one it waits for leaves",
        (*single("a"), join("b"), join("a", held=True), leave("b"), Await("a")),
        profiles=since("2.3"),
    ),
    Transcript(
        "one that was told its id leaves while the others sync",
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
        "one that was told its id commits, as no member may",
        (join("a"), commit("a", generation=0), commit("a", generation=-1), commit("b", generation=-1)),
        profiles=since("2.3"),
    ),
    Transcript(
        "a group that has told ids only is no group, or is it",
        (join("a"), join("b"), describe(), list_groups(), leave("a"), leave("b"), describe(), enter("c"), describe()),
        profiles=since("2.3"),
    ),
)
