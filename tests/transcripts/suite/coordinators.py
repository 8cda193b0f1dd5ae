"""Several brokers: the coordinator of a group and the responses of the others. And groups limited to three members."""

from __future__ import annotations

from tests.transcripts.group_requests import (
    SIMPLE,
    Await,
    Group,
    Look,
    commit,
    delete_groups,
    delete_offsets,
    describe,
    enter,
    fetch_offsets,
    find_coordinator,
    heartbeat,
    join,
    leave,
    list_groups,
    pair,
    sync,
)
from tests.transcripts.script import Step, Transcript
from tests.transcripts.versions import ALL

_ELSEWHERE = {"at_coordinator": False}

_FULL: tuple[Step, ...] = (
    *pair(),
    enter("c", held=True),
    join("b", held=True),
    join("a"),
    Await("b"),
    Await("c"),
    sync("a", {"a": b"one", "b": b"two", "c": b"three"}),
    sync("b"),
    sync("c"),
)

TRANSCRIPTS = (
    Transcript(
        "every broker knows every group's coordinator",
        (
            find_coordinator("a"),
            find_coordinator("a", **_ELSEWHERE),
            *(find_coordinator("a", Group(f"g{n}")) for n in range(6)),
            find_coordinator("a", *(Group(f"g{n}") for n in range(12)), **_ELSEWHERE),
        ),
        brokers=3,
        profiles=ALL,
    ),
    Transcript(
        "coordinators of keys that are no groups",
        (find_coordinator("a", ""), find_coordinator("a", key_type=7)),
        profiles=("2.1", "3.9"),
        brokers=3,
    ),
    Transcript(
        "no other broker answers for the group",
        (
            enter("a", **_ELSEWHERE),
            *pair(),
            join("a", **_ELSEWHERE),
            sync("a", {"a": b"all"}, **_ELSEWHERE),
            heartbeat("a", **_ELSEWHERE),
            commit("a", **_ELSEWHERE),
            commit("x", **SIMPLE, **_ELSEWHERE),
            fetch_offsets("a", **_ELSEWHERE),
            leave("a", **_ELSEWHERE),
            describe("admin", operations=True, **_ELSEWHERE),
            list_groups("admin", **_ELSEWHERE),
            list_groups("admin"),
            delete_groups("admin", **_ELSEWHERE),
            delete_offsets("admin", **_ELSEWHERE),
            heartbeat("a"),
        ),
        profiles=("lowest", "2.1", "2.3", "2.5", "3.9"),
        brokers=3,
    ),
    Transcript(
        "a full group refuses new members",
        (
            *_FULL,
            enter("d"),
            join("b"),
            join("e", member="unknown"),
            leave("c"),
            enter("d", held=True),
            Look(),
            describe(),
        ),
        profiles=("2.1", "2.3", "3.9"),
        brokers=3,
    ),
    Transcript(
        "a full group refuses new static members",
        (*_FULL, join("d", instance="one"), describe()),
        profiles=("2.3", "3.9"),
        brokers=3,
    ),
    Transcript(
        "more clients get member ids than the limit lets join",
        (
            *pair(),
            join("c", held=True),
            join("d", held=True),
            join("c", held=True),
            join("d", held=True),
            join("b", held=True),
            join("a", held=True),
            Look(),
        ),
        profiles=("2.1", "2.3", "3.9"),
        brokers=3,
    ),
)
