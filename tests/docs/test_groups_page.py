"""Output in docs/groups.md equals that of `sarameya groups`."""

from __future__ import annotations

import re
from typing import Any

import attrs
import pytest

from sarameya.protocol.cluster.described_groups import DescribedMember, ListedGroup
from sarameya.protocol.cluster.metadata import Broker
from sarameya.service.groups import operations
from sarameya.service.groups.reset import LogBounds, ResetKind, ResetTarget, plan
from sarameya.service.groups.results import reset
from sarameya.service.groups.tables import listing_text, report_text
from tests.docs.pages import blocks, page
from tests.service.groups.kit import commits, group, offsets, report_of, tp

PAGE = page("groups")
LISTING, REPORT, RESET = blocks(PAGE, "")
BROKER = Broker(0, "127.0.0.1", 9092)


def landing(number: int, *partitions: int) -> DescribedMember:
    member_id = re.findall(r"^(landing-\S+) ", REPORT, re.MULTILINE)[number]
    return DescribedMember(member_id, "landing", "/127.0.0.1", None, ("orders",), {"orders": partitions}, "")


def test_listing_equals_the_output() -> None:
    assert listing_text([ListedGroup("orders-landing", "consumer", BROKER, "Stable", "classic")]) + "\n" == LISTING


def test_report_equals_the_output() -> None:
    described = attrs.evolve(group(landing(0, 0, 1), landing(1, 2)), group="orders-landing", coordinator=BROKER)
    committed = {f"orders-{number}": 1000 for number in range(3)}
    ends = {"orders-0": 1250, "orders-1": 1000, "orders-2": 1040}
    assert report_text(report_of(described, committed, ends)) + "\n" == REPORT


async def test_reset_equals_the_output(monkeypatch: pytest.MonkeyPatch) -> None:
    target = ResetTarget(ResetKind.SHIFT, -1100)
    logs = LogBounds(offsets({"orders-0": 0, "orders-1": 0}), offsets({"orders-0": 1250, "orders-1": 1000}))
    moves = plan(target, [tp("orders-0"), tp("orders-1")], commits({"orders-0": 1250, "orders-1": 1000}), logs)

    async def planned(*_: Any) -> operations.ResetPlan:
        return operations.ResetPlan(group(state="Empty"), moves)

    monkeypatch.setattr(operations, "plan_reset", planned)
    no_admin: Any = None
    result = await reset(no_admin, "orders-landing", (), target, execute=False)
    assert result.text + "\n" == RESET
