"""Programs of docs/fetching.md run unchanged, and its tables match the code."""

from __future__ import annotations

import re
from typing import Any

import attrs
import pytest
from trio.testing import MockClock

import sarameya
from sarameya import Config, observe
from tests.docs.pages import blocks, page
from tests.group.kit import deadline, eventually, fill, orders, start_member

PAGE = page("fetching")
UNITS = {"": 1, "s": 1, "MiB": 2**20}


@pytest.fixture
def shown() -> dict[str, Any]:
    """Return the names that the page's Python defines."""
    names: dict[str, Any] = {}
    exec("\n".join(blocks(PAGE, "python")), names)
    return names


@pytest.mark.parametrize("name", ["Each", "Columns", "Collects"])
async def test_handler_reads_and_marks_every_message(
    autojump_clock: MockClock, shown: dict[str, Any], name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    shown["ENOUGH"] = 20
    async with orders(1) as cluster, deadline() as nursery:
        fill(cluster, 30, 0)
        member = await start_member(nursery, cluster, shown[name]())
        await eventually(lambda: any(30 in event.offsets.values() for event in member.seen(observe.Committed)))
    printed = capsys.readouterr().out
    assert (printed == "30 rows up to 30\n") == (name == "Columns")


def test_defaults_equal_the_options() -> None:
    rows = re.findall(r"^\| `([a-z_]+)` \| ([^|]+) \|", PAGE, re.MULTILINE)
    config = Config()
    documented = {}
    for name, default in rows:
        if number := re.fullmatch(r"([\d.]+) ?(\w*)", default.strip()):
            documented[name] = float(number[1]) * UNITS[number[2]]
        else:
            documented[name] = {"true": True, "none": ""}.get(default.strip(), default.strip().strip('`"'))
    assert documented == {name: getattr(config, name) for name in documented}
    assert set(documented) >= {field.name for field in attrs.fields(Config) if field.name.startswith("fetch_")}


def test_named_errors_and_events_exist() -> None:
    names = set(re.findall(r"`([A-Z]\w+)`", PAGE))
    assert names >= {"CorruptRecordError", "TopicRecreatedError", "PartitionBackpressured"}
    known = {*dir(sarameya), *dir(observe), "ConsumerGroupHandler"}
    assert names - known == set()


def test_named_claim_and_group_methods_exist() -> None:
    owners = {"claim": sarameya.Claim, "group": sarameya.ConsumerGroup, "batch": sarameya.MessageBatch}
    for owner, name in re.findall(r"`(claim|group|batch)\.(\w+)(?:\(\))?`", PAGE):
        assert hasattr(owners[owner], name)
