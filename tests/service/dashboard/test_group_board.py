"""Updates of the dashboard while Kafka or a member does not answer. Neither delays those of the other."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from sarameya import Config
from sarameya import TopicPartition as TP
from sarameya.errors import AuthenticationError, ConnectError
from sarameya.protocol.cluster.described_groups import DescribedGroup
from sarameya.service.app.cluster_arguments import Cluster
from sarameya.service.dashboard import group_board
from sarameya.service.dashboard.endpoint_document import Document
from sarameya.service.dashboard.endpoints import MemberEndpoints
from sarameya.service.dashboard.group_board import GroupBoard
from tests.group.kit import deadline
from tests.service.dashboard.test_group_document import group, member, row, service

HERE = TP("orders", 0)


class Found:
    def __init__(self, ends: dict[TP, int]) -> None:
        self.found = ends


class Kafka:
    """Fake cluster, and fake client of it."""

    def __init__(self) -> None:
        self.end = 10
        self.answers = trio.Event()
        self.answers.set()
        self.error: Exception | None = None

    def __call__(self, *about: object) -> Kafka:
        return self

    async def __aenter__(self) -> Kafka:
        return self

    async def __aexit__(self, *error: object) -> None:
        await trio.lowlevel.checkpoint()

    async def describe(self, name: str) -> DescribedGroup:
        await self.answers.wait()
        if self.error is not None:
            raise self.error
        return group(member("m1", "10.0.0.1", 0))

    async def committed(self, name: str) -> dict[TP, Any]:
        return {}

    async def metadata(self, topics: Iterable[str]) -> None: ...

    async def log_offsets(self, partitions: Iterable[TP], which: object) -> Found:
        return Found({HERE: self.end})


class FakeMember:
    """Fake service of a member, which answers after `after` seconds."""

    def __init__(self) -> None:
        self.after = 0.0
        self.position = 0

    async def __call__(self, urls: Iterable[str], name: str) -> dict[str, Document | str]:
        await trio.sleep(self.after)
        self.position += 1
        return {"h:1": service("m1", row(0, position=self.position, lag=0, high_water_mark=self.position))}


@pytest.fixture
def kafka(monkeypatch: pytest.MonkeyPatch) -> Kafka:
    made = Kafka()
    monkeypatch.setattr(group_board, "GroupAdmin", made)
    return made


@pytest.fixture
def fake_member(monkeypatch: pytest.MonkeyPatch) -> FakeMember:
    made = FakeMember()
    monkeypatch.setattr(group_board, "fetch_documents", made)
    return made


def board() -> GroupBoard:
    return GroupBoard("g", Cluster(("localhost:1",), Config()), MemberEndpoints(("http://h:1",)), trio.current_time)


def rendered(shown: GroupBoard) -> Document:
    document: Document = json.loads(shown.render()[0])
    return document


async def test_frozen_kafka_is_reported_while_members_are_updated(
    autojump_clock: MockClock, kafka: Kafka, fake_member: FakeMember
) -> None:
    async with deadline() as nursery:
        here = board()
        assert rendered(here)["reasons"] == ["Kafka has not answered yet"]
        nursery.start_soon(here.run)
        await trio.sleep(5)
        assert rendered(here)["reasons"] == []
        kafka.answers = trio.Event()
        await trio.sleep(7)
        before = fake_member.position
        await trio.sleep(13)
        document = rendered(here)
        (reason,) = document["reasons"]
        assert reason in [f"Kafka does not answer; its part of the page is {n} s old" for n in (19, 20, 21)]
        assert document["partitions"][0]["position"] == fake_member.position > before + 5
        assert document["age"] <= 2
        kafka.answers.set()
        await trio.sleep(5)
        assert rendered(here)["reasons"] == []


async def test_unreachable_kafka_is_reported_with_the_reason(
    autojump_clock: MockClock, kafka: Kafka, fake_member: FakeMember
) -> None:
    kafka.error = ConnectError("no broker is there")
    async with deadline() as nursery:
        here = board()
        nursery.start_soon(here.run)
        await trio.sleep(5)
        assert rendered(here)["reasons"] == ["Kafka has not answered yet: no broker is there"]
        assert rendered(here)["partitions"][0]["position"] == fake_member.position
        kafka.error = None
        await trio.sleep(5)
        assert rendered(here)["ready"]


async def test_slow_member_does_not_delay_kafkas_part(
    autojump_clock: MockClock, kafka: Kafka, fake_member: FakeMember
) -> None:
    async with deadline() as nursery:
        here = board()
        nursery.start_soon(here.run)
        await trio.sleep(5)
        fake_member.after = 15.0
        ages = []
        for _ in range(6):
            assert await here.wait_for_update()
            ages.append(rendered(here)["age"])
        assert max(ages) > 8
        assert max(later - earlier for earlier, later in itertools.pairwise(ages)) <= group_board.INTERVAL


async def test_permanent_error_ends_the_board(autojump_clock: MockClock, kafka: Kafka, fake_member: FakeMember) -> None:
    kafka.error = AuthenticationError("h:1", "no")
    with trio.fail_after(60), pytest.raises(ExceptionGroup) as raised:
        await board().run()
    assert raised.group_contains(AuthenticationError)


async def test_health_has_the_reasons_of_the_document(
    autojump_clock: MockClock, kafka: Kafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def two_members(urls: Iterable[str], name: str) -> dict[str, Document | str]:
        paused = {"explained": ["orders-0: paused for 4 s"]}
        return {"h:1": service("m1", row(0), **paused), "h:2": service("m2", row(0))}

    monkeypatch.setattr(group_board, "fetch_documents", two_members)
    async with deadline() as nursery:
        here = board()
        nursery.start_soon(here.run)
        await trio.sleep(5)
        found = here.health()
        assert found.not_ready == ("orders-0: read by h:1 1 and by h:2 1",)
        assert found.explained == ("h:1: orders-0: paused for 4 s",)


async def test_outage_of_kafka_is_logged_once_at_start_and_end(
    autojump_clock: MockClock, kafka: Kafka, fake_member: FakeMember, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "sarameya")
    kafka.error = ConnectError("no broker is there")
    async with deadline() as nursery:
        nursery.start_soon(board().run)
        await trio.sleep(9)
        kafka.error = None
        await trio.sleep(9)
        nursery.cancel_scope.cancel()
    assert [(record.levelname, record.message) for record in caplog.records] == [
        ("WARNING", "Kafka does not answer: no broker is there"),
        ("INFO", "Kafka answers again"),
    ]
