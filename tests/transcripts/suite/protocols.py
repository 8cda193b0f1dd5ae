"""Protocols: the choice of a group's protocol, and members without a common one."""

from __future__ import annotations

from tests.transcripts.group_requests import (
    Await,
    Generation,
    Id,
    describe,
    enter,
    leave,
    list_groups,
    pair,
    single,
    sync,
)
from tests.transcripts.script import Transcript
from tests.transcripts.versions import since

TRANSCRIPTS = (
    Transcript(
        "a member votes for the first it has in common with all",
        (
            *single("a", protocols=("sticky", "range", "roundrobin")),
            enter("b", protocols=("cooperative-sticky", "range", "roundrobin"), held=True),
            enter("a", protocols=("sticky", "range", "roundrobin"), held=True),
            Await("b"),
        ),
    ),
    Transcript(
        "most votes win",
        (
            *single("a", protocols=("range", "roundrobin")),
            enter("b", protocols=("roundrobin", "range"), held=True),
            enter("c", protocols=("roundrobin", "range"), held=True),
            enter("a", protocols=("range", "roundrobin")),
            Await("b"),
            Await("c"),
        ),
    ),
    Transcript(
        "the vote may change when a member goes",
        (
            *single("a", protocols=("range", "roundrobin")),
            enter("b", protocols=("roundrobin",), held=True),
            enter("a", protocols=("range", "roundrobin")),
            Await("b"),
            sync("a", {"a": b"one", "b": b"two"}),
            sync("b"),
            leave("b"),
            enter("a", protocols=("range", "roundrobin")),
        ),
    ),
    Transcript(
        "a member without a common protocol is refused while others are there, not afterwards",
        (
            *single("a", protocols=("range",)),
            enter("b", protocols=("sticky",)),
            leave("a"),
            enter("b", protocols=("sticky",)),
            sync("b", {"b": b"all"}),
            describe(),
        ),
    ),
    Transcript(
        "an empty group takes any protocol type",
        (
            *single("a"),
            leave("a"),
            enter("b", protocol_type="connect", protocols={"default": b"worker"}),
            sync("b", {"b": b"all"}),
            enter("c"),
            describe(),
            list_groups(),
        ),
    ),
    Transcript(
        "a protocol named twice, and bytes that are no subscription",
        (
            enter("a", protocols={"range": b"", "odd": b"\xff\xfe"}),
            sync("a", {"a": b"\x00\xff"}),
            describe(),
        ),
    ),
    Transcript(
        "syncs must name their protocol where they can",
        (
            *pair(),
            sync("b", protocol_type="connect"),
            sync("b", protocol_name="sticky"),
            sync("c", member=Id("b"), generation=Generation("b")),
            sync("c", member=Id("b"), generation=Generation("b"), protocol_type="consumer"),
            sync("c", member=Id("b"), generation=Generation("b"), protocol_name="range"),
            sync("b"),
        ),
        profiles=since("2.5"),
    ),
)
