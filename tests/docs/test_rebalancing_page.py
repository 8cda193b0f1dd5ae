"""Programs of docs/rebalancing.md run unchanged, and its names exist."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any

import kafka
import pytest
import trio
from trio.testing import MockClock

import sarameya
from sarameya import Config, observe
from sarameya.embedded import EmbeddedCluster
from sarameya.protocol.assignors import ASSIGNORS
from sarameya.protocol.rebalance import decode_assignment
from sarameya.testing import run_inline, virtual_wall_clock
from tests.docs.pages import blocks, page
from tests.group.kit import deadline, eventually, orders

PAGE = page("rebalancing")


@pytest.fixture
def shown() -> dict[str, Any]:
    names: dict[str, Any] = {}
    exec("\n".join(blocks(PAGE, "python")), names)
    return names


async def test_hours_of_faults_pass_in_virtual_time(autojump_clock: MockClock, shown: dict[str, Any]) -> None:
    await shown["hours_of_trouble"]()
    assert trio.current_time() >= 3 * 3600


async def test_topics_by_name_or_pattern_can_be_changed(autojump_clock: MockClock, shown: dict[str, Any]) -> None:
    async with orders(2) as cluster, deadline() as nursery:
        cluster.create_topic("orders-eu", 1)
        group = sarameya.ConsumerGroup(
            cluster.bootstrap_servers,
            "g",
            transport=cluster.transport,
            run_sync=run_inline,
            wall_clock=virtual_wall_clock,
        )
        async with group:
            nursery.start_soon(shown["by_pattern"], group)
            await eventually(lambda: assigned(cluster) == {"orders-eu": (0,)})
            shown["change"](group)
            await eventually(lambda: assigned(cluster) == {"orders": (0, 1)})
            await group.close()


def assigned(cluster: EmbeddedCluster) -> dict[str, tuple[int, ...]]:
    """Return the assignment of the group's only member, once it has one."""
    members = cluster.describe_group("g").members
    if len(members) != 1 or not members[0].assignment:
        return {}
    assignment, _ = decode_assignment(members[0].assignment)
    return {topic: tuple(numbers) for topic, numbers in assignment.items()}


def test_offsets_are_committed_with_the_members_identity(shown: dict[str, Any]) -> None:
    sent: list[tuple[Any, Any]] = []
    producer = SimpleNamespace(send_offsets_to_transaction=lambda *arguments: sent.append(arguments))
    session = SimpleNamespace(group_metadata=sarameya.GroupMetadata("g", 7, "member", "static"))
    shown["send_offsets"](producer, session)
    [(offsets, metadata)] = sent
    assert metadata == kafka.ConsumerGroupMetadata("g", 7, "member", "static")
    assert offsets == {kafka.TopicPartition("orders", 0): kafka.OffsetAndMetadata(43, "", -1)}


def test_table_lists_every_assignor() -> None:
    assert re.findall(r"^\| `([\w-]+)` \| [^|]+ \| (?:eager|cooperative)", PAGE, re.MULTILINE) == [*ASSIGNORS]
    config = Config()
    for name in ("heartbeat_interval", "claim_grace", "metadata_max_age", "session_timeout", "retry_backoff_max"):
        assert f"`{name}`" in PAGE
        assert hasattr(config, name)


def test_named_errors_and_events_exist() -> None:
    names = set(re.findall(r"`(\w+(?:Error)|Retrying)`", PAGE))
    assert names >= {"AssignorError", "FencedInstanceError", "Retrying"}
    assert names - {*dir(sarameya), *dir(observe)} == set()
