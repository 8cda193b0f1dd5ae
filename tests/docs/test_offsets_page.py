"""Programs of docs/offsets.md run unchanged."""

from __future__ import annotations

import re
import tomllib
from typing import Any

import pytest
from trio.testing import MockClock

from sarameya import CommittedOffset, Config
from sarameya.observe import ClaimStarted
from sarameya.offset_policy import parse_policy
from sarameya.service.groups.command import _to
from tests.docs.pages import blocks, page
from tests.group.kit import Recorder, deadline, eventually, failure, fill, orders, start_member
from tests.group.standalone_kit import ORDERS, Watched, take

PAGE = page("offsets")


@pytest.fixture(scope="module")
def shown() -> dict[str, Any]:
    """Return the names that the page's Python defines."""
    names: dict[str, Any] = {}
    exec("\n".join(blocks(PAGE, "python")), names)
    return names


def test_python_and_toml_examples_are_equal(shown: dict[str, Any]) -> None:
    [toml] = blocks(PAGE, "toml")
    assert Config.from_mapping(tomllib.loads(toml)["config"]) == shown["config"]


def test_listed_policies_are_valid() -> None:
    rows = re.findall(r'^\| `"([^"]+)"', PAGE, re.MULTILINE)
    assert len(rows) == 5
    assert [row for row in rows if parse_policy(row) is None] == []


def test_command_line_policy_is_valid() -> None:
    [text] = re.findall(r"--to (\S+)", PAGE)
    assert _to(text)


def test_named_errors_and_events_exist() -> None:
    import sarameya
    from sarameya import observe

    names = set(re.findall(r"`(\w+(?:Error|Reset|Failed))`", PAGE))
    assert names >= {"NoCommittedOffsetError", "OffsetOutOfRangeError", "LogTruncatedError", "InterceptorError"}
    assert [name for name in names if not (hasattr(sarameya, name) or hasattr(observe, name))] == []


async def test_interceptor_changes_read_messages(autojump_clock: MockClock, shown: dict[str, Any]) -> None:
    async with orders() as cluster, deadline():
        cluster.produce("orders", 0, b"olleh")
        async with Watched(cluster, interceptors=[shown["Decrypting"]()]) as consumer:
            async with consumer.consume_partition("orders", 0, "oldest") as claim:
                [message] = await take(claim, 1)
                assert message.value == b"hello"


async def test_sink_starts_after_its_rows_in_the_same_log(autojump_clock: MockClock, shown: dict[str, Any]) -> None:
    async with orders() as cluster, deadline() as nursery:
        fill(cluster, 10)
        recorder = Recorder()
        await start_member(nursery, cluster, recorder, group="other")
        await recorder.received(10)
        topic_id = recorder.sessions[0].topic_id("orders")
        landed = {ORDERS[0]: CommittedOffset(7, "up to 7", 0)}
        member = await start_member(nursery, cluster, shown["Sink"](landed, topic_id))
        await eventually(lambda: cluster.committed("g").get(ORDERS[0]) == CommittedOffset(10, "up to 10"))
        assert [event.offset for event in member.seen(ClaimStarted)] == [7]
        await member.close()
        beyond = {ORDERS[0]: CommittedOffset(11, "up to 11", 0)}
        for other in (shown["Sink"](landed, "0" * 32), shown["Sink"](beyond, topic_id)):
            member = await start_member(nursery, cluster, other)
            await member.ended.wait()
            assert "is not what has landed" in str(failure(member))


async def test_reader_starts_an_hour_ago(autojump_clock: MockClock, shown: dict[str, Any]) -> None:
    now = 1_000_000.0
    async with orders() as cluster, deadline():
        for seconds in (7200, 3601, 3600, 10):
            cluster.produce("orders", 0, b"x", timestamp=int(now - seconds) * 1000)
        async with Watched(cluster, wall_clock=lambda: now) as consumer:
            [claim] = await shown["last_hour"](consumer)
            assert claim.initial_offset == 2
