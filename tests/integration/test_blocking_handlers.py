"""Handlers that block the event loop, with members in their own processes: only real time shows late heartbeats."""

from __future__ import annotations

import json
import sys
from functools import partial
from pathlib import Path

import pytest
import trio

from sarameya.embedded import EmbeddedCluster

pytestmark = pytest.mark.integration

ROOT = Path(__file__).parents[2]
MEMBERS: dict[str, tuple[int, int, list[str]]] = {
    "blocks": (16, 60, []),
    "blocks-on-many": (200, 20, []),
    "blocks-later": (16, 1000, ["--quick", "10000"]),
    "awaits-and-blocks": (16, 60, ["--awaits"]),
    "awaits-and-blocks-on-many": (200, 20, ["--awaits"]),
    "blocks-in-streams": (16, 60, ["--streams"]),
    "blocks-for-long": (16, 60, ["--block", "1"]),
    "blocks-at-the-start": (120, 2, ["--at-start", "--quick", "1000", "--for", "35"]),
}
"""Topic -> its partitions, the messages in each, and the member's arguments."""


async def test_fault_41_blocking_handlers_keep_membership_and_commit() -> None:
    """Each member blocks for one and a half session timeouts, 0.1 s at a time."""
    topics = {name: partitions for name, (partitions, _, _) in MEMBERS.items()}
    seen: dict[str, dict[str, int]] = {}
    async with EmbeddedCluster(topics) as cluster:
        for name, (partitions, messages, _) in MEMBERS.items():
            for number in range(partitions):
                cluster.produce_many(name, number, [(None, b"x")] * messages)

        async def run(name: str, *arguments: str) -> None:
            command = [sys.executable, "-m", "tests.integration.blocking_member", *cluster.bootstrap_servers, name]
            done = await trio.run_process([*command, *arguments], cwd=ROOT, capture_stdout=True)
            seen[name] = json.loads(done.stdout)

        with trio.fail_after(120):
            async with trio.open_nursery() as nursery:
                for name, (_, _, arguments) in MEMBERS.items():
                    nursery.start_soon(partial(run, name, *arguments))
    assert {name: (found["lost"], found["repeated"]) for name, found in seen.items()} == dict.fromkeys(MEMBERS, (0, 0))
    assert [name for name, found in seen.items() if found["committed"] != found["taken"]] == []
    assert [name for name, found in seen.items() if not found["taken"]] == []
