"""Commits, fetches of committed offsets, and their deletion."""

from __future__ import annotations

from tests.transcripts.group_requests import (
    SIMPLE,
    Group,
    commit,
    delete_groups,
    delete_offsets,
    describe,
    enter,
    fetch_offsets,
    heartbeat,
    leave,
    list_groups,
    pair,
    single,
    subscription,
    sync,
)
from tests.transcripts.script import Transcript
from tests.transcripts.versions import ALL, since

TRANSCRIPTS = (
    Transcript(
        "a simple consumer's commits make a group",
        (
            fetch_offsets("a"),
            commit("a", {("orders", 0): 7, ("orders", 1): 0, ("returns", 0): 2**62}, **SIMPLE),
            fetch_offsets("a", {"returns": (0,), "orders": (1, 0)}),
            describe(),
            list_groups(),
            commit("a", {("orders", 0): 3}, **SIMPLE),
            fetch_offsets("a"),
        ),
        profiles=ALL,
    ),
    Transcript(
        "all offsets at once",
        (
            fetch_offsets("a", None),
            commit("a", {("orders", 1): 7, ("returns", 0): 8}, **SIMPLE),
            fetch_offsets("a", None),
            fetch_offsets("a", {}),
        ),
        profiles=since("2.1"),
    ),
    Transcript(
        "all offsets at once, in versions without this request",
        (fetch_offsets("a", None),),
        profiles=("lowest",),
    ),
    Transcript(
        "metadata of every length",
        (
            commit("a", metadata=None, **SIMPLE),
            fetch_offsets("a"),
            commit("a", metadata="", **SIMPLE),
            fetch_offsets("a"),
            commit("a", metadata="größer ✓", **SIMPLE),
            fetch_offsets("a"),
            commit("a", metadata="x" * 4096, **SIMPLE),
            commit("a", {("orders", 0): 9, ("orders", 1): 9}, metadata="x" * 4097, **SIMPLE),
            commit("a", {("orders", 1): 10}, metadata="ü" * 4096, **SIMPLE),
            commit("a", {("orders", 1): 11}, metadata="ü" * 4097, **SIMPLE),
        ),
        profiles=("lowest", "3.9"),
    ),
    Transcript(
        "topics and partitions that do not exist",
        (
            commit("a", {("unknown", 0): 1}, **SIMPLE),
            commit("a", {("orders", 0): 1, ("orders", 2): 1, ("unknown", 0): 1, ("", 0): 1}, **SIMPLE),
            commit("a", {("orders", -1): 1}, **SIMPLE),
            fetch_offsets("a", {"unknown": (0,), "orders": (0, 2, -1)}),
        ),
        profiles=("lowest", "2.1", "3.9"),
    ),
    Transcript(
        "negative offsets",
        (
            commit("a", {("orders", 0): -1}, **SIMPLE),
            fetch_offsets("a"),
            commit("a", {("orders", 1): -5}, **SIMPLE),
            fetch_offsets("a"),
        ),
        profiles=("lowest", "3.9"),
    ),
    Transcript(
        "a commit of nothing",
        (commit("a", {}, **SIMPLE), describe(), list_groups()),
        profiles=("lowest", "2.1", "3.9"),
    ),
    Transcript(
        "leader epochs are kept",
        (commit("a", epoch=0, **SIMPLE), fetch_offsets("a"), commit("a", epoch=7, **SIMPLE), fetch_offsets("a")),
        profiles=("lowest", "2.1", "3.9"),
    ),
    Transcript(
        "one partition twice in a commit, and in a fetch",
        (fetch_offsets("a", {"orders": (0, 0)}), commit("a", **SIMPLE), fetch_offsets("a", {"orders": (0, 0)})),
        profiles=("lowest", "3.9"),
    ),
    Transcript(
        "offsets of many groups at once",
        (
            commit("a", **SIMPLE),
            commit("a", {("orders", 1): 8}, group=Group("other"), **SIMPLE),
            fetch_offsets("a", groups=[Group(), Group("other"), Group("unknown")]),
            fetch_offsets("a", None, groups=[Group("other"), Group()]),
        ),
        profiles=("3.9",),
    ),
    Transcript(
        "a member's commits outlive it",
        (
            *single("a"),
            commit("a"),
            leave("a"),
            fetch_offsets("a"),
            commit("a", {("orders", 0): 8}, member="", generation=-1),
            commit("a", generation=1),
            fetch_offsets("a"),
            enter("b"),
            fetch_offsets("b"),
        ),
        profiles=ALL,
    ),
    Transcript(
        "a commit with a generation to a group that never had one",
        (
            commit("a", generation=0, member=""),
            commit("a", generation=1, member="unknown"),
            commit("a", **SIMPLE),
            commit("a", generation=0, member=""),
            commit("a", generation=1, member="unknown"),
            commit("a", generation=-1, member="unknown"),
            commit("a", generation=-2, member=""),
        ),
    ),
    Transcript(
        "offsets of a group with members: those of topics that nobody reads may be deleted",
        (
            *single("a"),
            commit("a", {("orders", 0): 1, ("returns", 0): 2}),
            delete_offsets("admin", {"orders": (0, 1), "returns": (0,)}),
            fetch_offsets("x", {"orders": (0,), "returns": (0,)}),
        ),
        profiles=("2.1", "3.9"),
    ),
    Transcript(
        "offsets of a group with members that read more than one topic, unevenly",
        (
            *pair({}, {"protocols": {"range": subscription("returns", "orders")}}),
            commit("a", {("orders", 0): 1, ("returns", 0): 2}),
            delete_offsets("admin", {"orders": (0,), "returns": (0,), "other": (0,)}),
            heartbeat("b"),
        ),
        profiles=("2.1", "3.9"),
    ),
    Transcript(
        "offsets of a group of another protocol type are not deleted while it has members",
        (
            enter("a", protocol_type="connect", protocols={"default": b"worker"}),
            sync("a", {"a": b"all"}),
            commit("a"),
            delete_offsets(),
            leave("a"),
            delete_offsets(),
            fetch_offsets("x"),
        ),
        profiles=("2.1", "3.9"),
    ),
    Transcript(
        "offsets of a group whose subscriptions cannot be read",
        (
            *single("a", protocols={"range": b"\xff"}),
            commit("a"),
            delete_offsets(),
            fetch_offsets("x"),
        ),
        profiles=("2.1", "3.9"),
    ),
    Transcript(
        "offsets of a group without members are deleted one by one",
        (
            delete_offsets(),
            commit("a", {("orders", 0): 1, ("orders", 1): 2, ("returns", 0): 3}, **SIMPLE),
            delete_offsets("admin", {"orders": (1, 2, -1), "unknown": (0,)}),
            fetch_offsets("a", {"orders": (0, 1), "returns": (0,)}),
            delete_offsets("admin", {"orders": (1,)}),
            delete_offsets("admin", {}),
        ),
        profiles=("2.1", "3.9"),
    ),
    Transcript(
        "a deleted group has no commits",
        (
            *single("a"),
            commit("a"),
            delete_groups(),
            leave("a"),
            delete_groups(),
            fetch_offsets("a"),
            commit("a", generation=1),
            describe(),
            list_groups(),
            enter("a"),
        ),
        profiles=("2.1", "3.9"),
    ),
)
