"""Requests that describe, list and delete several groups at once."""

from __future__ import annotations

from tests.transcripts.group_requests import (
    SIMPLE,
    Group,
    commit,
    delete_groups,
    describe,
    enter,
    join,
    list_groups,
    pair,
)
from tests.transcripts.script import Transcript
from tests.transcripts.versions import ALL, NEWEST

_MIXED = (
    *pair(),
    commit("x", group=Group("simple"), **SIMPLE),
    enter("y", group=Group("completing")),
    join("z", group=Group("connect"), protocol_type="connect", protocols={"default": b"worker"}, retry_with_id=True),
)

TRANSCRIPTS = (
    Transcript(
        "groups in several states are described at once",
        (
            *_MIXED,
            describe("admin", Group("simple"), Group(), Group("completing"), Group("connect"), Group("unknown")),
            describe("admin", Group(), Group()),
        ),
        profiles=(*ALL, NEWEST),
    ),
    Transcript(
        "allowed operations on groups are returned on request",
        (describe("admin", Group("unknown"), Group(), operations=True), describe("admin")),
        setup=pair(),
        profiles=("2.3", "3.9", NEWEST),
    ),
    Transcript(
        "groups in several states are listed",
        (
            *_MIXED,
            list_groups(),
            list_groups("admin", "Stable"),
            list_groups("admin", "stable"),
            list_groups("admin", "Empty", "CompletingRebalance"),
            list_groups("admin", "Dead"),
            list_groups("admin", ""),
        ),
        profiles=(*ALL, NEWEST),
    ),
    Transcript(
        "groups are deleted at once, each with its own error",
        (
            *_MIXED,
            delete_groups("admin", Group("unknown"), Group(), Group("simple"), Group("completing")),
            list_groups(),
            delete_groups("admin", Group("simple")),
        ),
        profiles=ALL,
    ),
    Transcript(
        "a group is deleted twice in one request",
        (commit("x", **SIMPLE), delete_groups("admin", Group(), Group())),
        profiles=("2.1", "3.9"),
    ),
)
