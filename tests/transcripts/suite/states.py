"""Every request in every state of a group: one transcript for each pair, made from two tables.

A state is the list of steps that lead to it; its members are a (the leader) and b. A probe is a valid or invalid
request of a, of b, or of a client x that is no member. After it the play records the held requests and the group.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tests.transcripts.differences import NOT_PLAYED
from tests.transcripts.group_requests import (
    SIMPLE,
    Await,
    Generation,
    Id,
    Look,
    commit,
    delete_groups,
    delete_offsets,
    describe,
    enter,
    fetch_offsets,
    heartbeat,
    join,
    leave,
    leaver,
    list_groups,
    pair,
    single,
    subscription,
    sync,
)
from tests.transcripts.script import Step, Transcript
from tests.transcripts.versions import ALL, since

_READS = subscription("orders")
_RANGE = {"protocol_type": "consumer", "protocol_name": "range"}
_BOTH = {"range": _READS, "roundrobin": _READS}
_OLD = {"a": {"protocols": _BOTH}, "b": {"protocols": _BOTH}}

STATES: Mapping[str, tuple[Step, ...]] = {
    "missing": (),
    "empty, only committed to": (commit("x", **SIMPLE),),
    "deleted": (commit("x", **SIMPLE), delete_groups()),
    "empty, all have left": (*single(), commit("a"), leave("a")),
    "stable": (*pair(**_OLD), commit("a")),
    "stable, one is to come back with its id": (*pair(**_OLD), join("c", held=True)),
    "preparing, nobody has joined again": (*pair(**_OLD), enter("c", protocols=_BOTH, held=True)),
    "preparing, the follower has joined again": (
        *pair(**_OLD),
        enter("c", protocols=_BOTH, held=True),
        join("b", protocols=_BOTH, held=True),
    ),
    "completing, nobody has synced": (
        *single(protocols=_BOTH),
        enter("b", protocols=_BOTH, held=True),
        enter("a", protocols=_BOTH),
        Await("b"),
    ),
    "completing, the follower has synced": (
        *single(protocols=_BOTH),
        enter("b", protocols=_BOTH, held=True),
        enter("a", protocols=_BOTH),
        Await("b"),
        sync("b", held=True),
    ),
}

_STATIC_A = {"instance": "one", "protocols": _BOTH}
_STATIC_B = {"instance": "two", "protocols": _BOTH}
_STATIC_PAIR = pair(_STATIC_A, _STATIC_B)

STATIC_STATES: Mapping[str, tuple[Step, ...]] = {
    "stable, static": _STATIC_PAIR,
    "preparing, static": (*_STATIC_PAIR, enter("c", protocols=_BOTH, held=True)),
    "completing, static": (
        *single(**_STATIC_A),
        enter("b", held=True, **_STATIC_B),
        enter("a", **_STATIC_A),
        Await("b"),
        sync("b", held=True),
    ),
}

_UNUSED = "x-00000000-0000-4000-8000-000000000000"
"""A member id that no member has."""

PROBES: Mapping[str, tuple[Step, ...]] = {
    "a new member joins": (enter("x", protocols=_BOTH, held=True),),
    "a member joins that is not known": (join("x", member=_UNUSED, protocols=_BOTH, held=True),),
    "one of another protocol type joins": (enter("x", protocol_type="connect", protocols=_BOTH, held=True),),
    "one without a common protocol joins": (enter("x", protocols=("sticky",), held=True),),
    "one without protocols joins": (enter("x", protocols=(), held=True),),
    "one without a protocol type joins": (enter("x", protocol_type="", protocols=_BOTH, held=True),),
    "the leader joins again": (join("a", protocols=_BOTH, held=True),),
    "the follower joins again": (join("b", protocols=_BOTH, held=True),),
    "the follower joins with another subscription": (
        join("b", protocols={"range": subscription("orders", "returns")}, held=True),
    ),
    "the follower joins with less protocols": (join("b", protocols=("roundrobin",), held=True),),
    "the follower joins with another protocol type": (join("b", protocol_type="connect", held=True),),
    "one whose id was given out joins": (join("c", protocols=_BOTH, held=True),),
    "the leader syncs": (sync("a", {"a": b"first", "b": b"second"}, held=True),),
    "the leader syncs for one only, and a stranger": (sync("a", {"a": b"first", "x": b"nobody's"}, held=True),),
    "the follower syncs": (sync("b", {"a": b"not", "b": b"mine"}, held=True),),
    "the follower syncs a generation late": (sync("b", generation=Generation("b", -1), held=True),),
    "the follower syncs a generation early": (sync("b", generation=Generation("b", +1), held=True),),
    "the follower syncs with another protocol": (sync("b", protocol_name="roundrobin", held=True),),
    "the follower syncs with another protocol type": (sync("b", protocol_type="connect", held=True),),
    "one who is no member syncs": (sync("x", member=_UNUSED, generation=2, **_RANGE, held=True),),
    "one without an id syncs": (sync("x", generation=-1, **_RANGE, held=True),),
    "the leader beats": (heartbeat("a"),),
    "the follower beats": (heartbeat("b"),),
    "one who is no member beats": (heartbeat("x", member=_UNUSED, generation=2),),
    "one without an id beats": (heartbeat("x"),),
    "one whose id was given out beats": (heartbeat("c"),),
    "the follower beats a generation late": (heartbeat("b", generation=Generation("b", -1)),),
    "the follower beats a generation early": (heartbeat("b", generation=Generation("b", +1)),),
    "the leader commits": (commit("a", {("orders", 0): 11}), fetch_offsets("x")),
    "the follower commits": (commit("b", {("orders", 1): 12}), fetch_offsets("x")),
    "the follower commits a generation late": (commit("b", generation=Generation("b", -1)),),
    "the follower commits a generation early": (commit("b", generation=Generation("b", +1)),),
    "the follower commits without a generation": (commit("b", generation=-1),),
    "one who is no member commits": (commit("x", member=_UNUSED, generation=2),),
    "one without an id commits with a generation": (commit("x", generation=2),),
    "one whose id was given out commits": (commit("c", generation=2),),
    "one commits without a group protocol": (commit("x", {("orders", 1): 13}, **SIMPLE), fetch_offsets("x")),
    "offsets are fetched": (fetch_offsets("x", {"orders": (0, 1), "returns": (0,), "unknown": (3,)}),),
    "the leader leaves": (leave("a"), describe(), leave("a")),
    "the follower leaves": (leave("b"), describe(), leave("b")),
    "one who is no member leaves": (leave("x", member=_UNUSED),),
    "one without an id leaves": (leave("x"),),
    "one whose id was given out leaves": (leave("c"),),
    "the group is described": (describe(operations=True),),
    "groups are listed": (list_groups(),),
    "the group is deleted": (delete_groups(), fetch_offsets("x")),
    "offsets are deleted": (delete_offsets("admin", {"orders": (0, 1), "returns": (0,), "unknown": (0,)}),),
}

BATCH_PROBES: Mapping[str, tuple[Step, ...]] = {
    "both leave at once": (leave("a", leaver(Id("a")), leaver(Id("b"))),),
    "a member, a stranger and nobody leave at once": (leave("b", leaver(Id("b")), leaver(_UNUSED), leaver()),),
    "nobody leaves, in a list of none": (leave("x", none=True),),
    "one instance that is not known leaves": (leave("admin", leaver(instance="unknown")),),
    "a member leaves twice at once": (leave("b", leaver(Id("b")), leaver(Id("b"))),),
}

LISTING_PROBES: Mapping[str, tuple[Step, ...]] = {
    "stable groups are listed": (list_groups("admin", "Stable"),),
    "empty and preparing groups are listed": (list_groups("admin", "Empty", "preparingrebalance"),),
    "groups in a state that is none are listed": (list_groups("admin", "Asleep"),),
    "all offsets are fetched": (fetch_offsets("x", None),),
}

STATIC_PROBES: Mapping[str, tuple[Step, ...]] = {
    "the leader returns": (
        join("d", instance="one", protocols=_BOTH, held=True),
        sync("d", instance="one", held=True),
        heartbeat("a"),
    ),
    "the follower returns": (
        join("d", instance="two", protocols=_BOTH, held=True),
        sync("d", instance="two", held=True),
        heartbeat("b"),
    ),
    "the leader returns with another subscription": (
        join("d", instance="one", protocols={"range": subscription("orders", "returns")}, held=True),
    ),
    "the follower returns with another subscription": (
        join("d", instance="two", protocols={"range": subscription("returns"), "roundrobin": _READS}, held=True),
    ),
    "the follower returns and changes the vote": (
        join("d", instance="two", protocols={"roundrobin": _READS}, held=True),
    ),
    "the follower returns with no common protocol": (join("d", instance="two", protocols=("sticky",), held=True),),
    "a new instance joins": (join("d", instance="three", protocols=_BOTH, held=True),),
    "the follower joins again": (join("b", instance="two", protocols=_BOTH, held=True),),
    "a dynamic member joins": (enter("d", protocols=_BOTH, held=True),),
    "a known instance joins with a wrong id": (join("d", member=_UNUSED, instance="two", protocols=_BOTH, held=True),),
    "an unknown instance joins with an id": (join("d", member=_UNUSED, instance="three", protocols=_BOTH, held=True),),
    "the follower's id joins for the leader's instance": (
        join("d", member=Id("b"), instance="one", protocols=_BOTH, held=True),
    ),
    "a known instance syncs with a wrong id": (sync("d", member=_UNUSED, generation=2, instance="two", **_RANGE),),
    "an unknown instance syncs": (sync("d", member=_UNUSED, generation=2, instance="three", **_RANGE),),
    "a known instance beats with a wrong id": (heartbeat("d", member=_UNUSED, generation=2, instance="two"),),
    "an unknown instance beats": (heartbeat("d", member=_UNUSED, generation=2, instance="three"),),
    "a static member beats without its instance": (heartbeat("d", member=Id("b"), generation=Generation("b")),),
    "a known instance beats with a wrong id and generation": (
        heartbeat("d", member=_UNUSED, generation=7, instance="two"),
    ),
    "a known instance commits with a wrong id": (commit("d", member=_UNUSED, generation=2, instance="two"),),
    "an unknown instance commits": (commit("d", member=_UNUSED, generation=2, instance="three"),),
    "a known instance commits without an id": (commit("d", generation=2, instance="two"),),
    "a known instance commits without id and generation": (commit("d", generation=-1, instance="two"),),
    "an unknown instance commits without id and generation": (commit("d", generation=-1, instance="three"),),
    "the follower commits": (commit("b"), fetch_offsets("x")),
    "the follower leaves": (leave("b"), describe()),
}

STATIC_BATCH_PROBES: Mapping[str, tuple[Step, ...]] = {
    "an administrator removes the follower by its instance": (leave("admin", leaver(instance="two")),),
    "an administrator removes the leader by its instance": (leave("admin", leaver(instance="one")),),
    "an administrator removes both and an unknown one": (
        leave("admin", leaver(instance="two"), leaver(instance="three"), leaver(instance="one")),
    ),
    "a known instance leaves with a wrong id": (leave("d", leaver(_UNUSED, "two")),),
    "an unknown instance leaves with an id": (leave("d", leaver(Id("b"), "three")),),
}


_ALSO_OLD = (
    "empty, all have left",
    "stable",
    "preparing, the follower has joined again",
    "completing, the follower has synced",
    *STATIC_STATES,
)
"""The states that are probed in an older profile too."""


def _cross(
    states: Mapping[str, tuple[Step, ...]], probes: Mapping[str, tuple[Step, ...]], old: str | None = None
) -> Iterator[Transcript]:
    """Yield a transcript for each pair of a state and a probe."""
    for state, setup in states.items():
        profiles = (old, "3.9") if old is not None and state in _ALSO_OLD else ("3.9",)
        for name, probe in probes.items():
            if (title := f"{state}: {name}") not in NOT_PLAYED:
                yield Transcript(title, (*probe, Look()), setup, profiles)


def _setups(states: Mapping[str, tuple[Step, ...]], profiles: tuple[str, ...]) -> Iterator[Transcript]:
    """Yield a transcript that records the steps that lead to each state."""
    for state, setup in states.items():
        yield Transcript(f"the way to {state!r}", (*setup, Look(), describe()), profiles=profiles)


TRANSCRIPTS = (
    *_setups(STATES, ALL),
    *_setups(STATIC_STATES, since("2.3")),
    *_cross(STATES, PROBES, old="2.1"),
    *_cross(STATES, BATCH_PROBES),
    *_cross(STATES, LISTING_PROBES),
    *_cross(STATIC_STATES, STATIC_PROBES, old="2.3"),
    *_cross(STATIC_STATES, STATIC_BATCH_PROBES, old="2.4"),
)
