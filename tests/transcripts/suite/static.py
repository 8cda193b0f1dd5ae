"""Static members (KIP-345) that return, are fenced, or are removed. `states` has every request in every state."""

from __future__ import annotations

from tests.transcripts.group_requests import (
    Await,
    Generation,
    Id,
    Look,
    Sleep,
    commit,
    describe,
    enter,
    fetch_offsets,
    heartbeat,
    join,
    leave,
    leaver,
    pair,
    single,
    subscription,
    sync,
)
from tests.transcripts.script import Transcript
from tests.transcripts.versions import since

_PAIR = pair({"instance": "one"}, {"instance": "two"})
_SHORT = 3_000

TRANSCRIPTS = (
    Transcript(
        "static members join at once, and are described as static",
        (*_PAIR, describe()),
        profiles=since("2.3"),
    ),
    Transcript(
        "a follower's restart moves nothing",
        (
            *_PAIR,
            join("c", instance="two"),
            sync("c"),
            heartbeat("c"),
            heartbeat("a"),
            heartbeat("b"),
            commit("b"),
            sync("b"),
            join("b", instance="two"),
            commit("c"),
            describe(),
        ),
        profiles=since("2.3"),
    ),
    Transcript(
        "a leader's restart moves nothing, and it leads again (KIP-814)",
        (
            *_PAIR,
            join("c", instance="one"),
            sync("c"),
            heartbeat("c"),
            heartbeat("b"),
            join("c", instance="one", held=True),
            join("b", instance="two", held=True),
            Look(),
            describe(),
        ),
        profiles=since("2.3"),
    ),
    Transcript(
        "a leader's restart alone in its group",
        (*single("a", instance="one"), join("b", instance="one"), sync("b"), heartbeat("b"), heartbeat("a")),
        profiles=since("2.3"),
    ),
    Transcript(
        "a leader returns after a restart and assigns although it should not",
        (*_PAIR, join("c", instance="one"), sync("c", {"c": b"all", "b": b""}), sync("b"), describe()),
        profiles=since("2.3"),
    ),
    Transcript(
        "a restart with another subscription",
        (
            *_PAIR,
            join("c", instance="two", protocols={"range": subscription("returns")}, held=True),
            heartbeat("a"),
            describe(),
        ),
        profiles=since("2.3"),
    ),
    Transcript(
        "two processes with one instance id: the later fences the earlier, also while it waits",
        (
            *single("a"),
            join("b", instance="one", held=True),
            join("c", instance="one", held=True),
            Await("b"),
            enter("a"),
            Await("c"),
            sync("c", held=True),
            join("d", instance="one", held=True),
            Look(),
            describe(),
        ),
        profiles=since("2.3"),
    ),
    Transcript(
        "two processes with one instance id: each request of the earlier is refused",
        (
            *single("a", instance="one"),
            join("b", instance="one"),
            heartbeat("a"),
            sync("a"),
            commit("a"),
            join("a", instance="one"),
            leave("a"),
            heartbeat("c", member=Id("a"), generation=Generation("a")),
            fetch_offsets("c"),
        ),
        profiles=since("2.4"),
    ),
    Transcript(
        "a static member leaves by its id, as before batches",
        (*_PAIR, leave("b"), describe(), join("a", instance="one")),
        profiles=("2.3",),
    ),
    Transcript(
        "static members are removed by an administrator, and come back as new ones",
        (
            *_PAIR,
            leave("admin", leaver(instance="two")),
            heartbeat("a"),
            heartbeat("b"),
            commit("b"),
            leave("admin", leaver(instance="two")),
            join("b", instance="two"),
            join("c", instance="two", held=True),
            join("a", instance="one"),
            Await("c"),
            describe(),
        ),
        profiles=since("2.4"),
    ),
    Transcript(
        "a static member's session ends like any other's",
        (
            *single("a", instance="one", session=_SHORT),
            Sleep(3.6),
            describe(),
            heartbeat("a"),
            join("b", instance="one", session=_SHORT),
            describe(),
        ),
        profiles=since("2.3"),
    ),
    Transcript(
        "a rebalance keeps a static member that joins late, and removes it if it does not sync",
        (
            *single("a", instance="one", session=20_000, rebalance=4_000),
            join("b", instance="two", session=20_000, rebalance=4_000, held=True),
            Sleep(4.2),
            Look(),
            describe(),
            sync("b", {"a": b"one", "b": b"two"}),
            describe(),
            Sleep(4.0),
            heartbeat("b"),
            describe(),
        ),
        profiles=since("2.3"),
    ),
    Transcript(
        "a static member returns in the middle of a rebalance that it started",
        (
            *_PAIR,
            join("a", instance="one", held=True),
            join("c", instance="two", held=True),
            Await("a"),
            sync("c", held=True),
            join("d", instance="two", held=True),
            Look(),
            describe(),
        ),
        profiles=since("2.3"),
    ),
    Transcript(
        "an instance that moves to a dynamic member's group",
        (*single("a"), join("a", instance="one"), heartbeat("a", instance="one"), describe()),
        profiles=since("2.3"),
    ),
    Transcript(
        "an instance id that is empty",
        (join("a", instance="", held=True), describe()),
        profiles=since("2.3"),
    ),
    Transcript(
        "an instance id that is a path",
        (join("a", instance=".."), join("a", instance="with space"), join("a", instance="x" * 250), describe()),
        profiles=since("2.3"),
    ),
)
