"""A board between its looks, and what it makes for whom."""

from __future__ import annotations

import json
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from sarameya.service.monitor.members import WorkerStatus
from sarameya.service.monitor.recent_events import EventRecorder
from sarameya.service.web import status_board as board_module
from sarameya.service.web.routes import _Feed
from sarameya.service.web.status_board import StatusBoard
from tests.service.monitor.kit import partition, worker_status
from tests.service.monitor.test_recent_events import landed


class FakeMemberSource:
    """The members that are known now."""

    def __init__(self, *members: WorkerStatus) -> None:
        self.now = list(members)

    def statuses(self) -> list[WorkerStatus]:
        return self.now


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The parts of documents that were made, in order."""
    found: list[str] = []
    for name in ("document", "history"):
        make = getattr(board_module, name)

        def making(*about: Any, name: str = name, make: Any = make, **more: Any) -> Any:
            found.append(name)
            return make(*about, **more)

        monkeypatch.setattr(board_module, name, making)
    return found


async def said_next(feed: _Feed) -> dict[str, Any]:
    text = await anext(feed)
    said: dict[str, Any] = json.loads(text.removeprefix("data: "))
    return said


async def test_document_is_made_once_for_all_listeners(autojump_clock: MockClock, made: list[str]) -> None:
    board = StatusBoard("g", FakeMemberSource(worker_status(partition())), stall_after=9.0, why_stopping=lambda: "")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(board.run)
        await trio.sleep(10.5)
        assert made == []
        assert board.full_document()["points"]["at"][9:], "it has looked all the same"
        made.clear()
        feeds = [_Feed(board) for _ in range(3)]
        for feed in feeds:
            await said_next(feed)
        assert made == ["document", "history"]
        async with trio.open_nursery() as listening:
            for feed in feeds:
                listening.start_soon(said_next, feed)
        assert made == ["document", "history", "document"]
        await trio.sleep(10)
        assert made == ["document", "history", "document"], "they have gone"
        nursery.cancel_scope.cancel()


async def test_events_and_landings_are_told_only_with_news(autojump_clock: MockClock) -> None:
    recent = EventRecorder()
    recent(landed(1))
    members = FakeMemberSource(worker_status(partition(), happenings=tuple(recent)))
    board = StatusBoard("g", members, stall_after=9.0, why_stopping=lambda: "")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(board.run)
        await trio.sleep(0.5)
        feed = _Feed(board)
        first, second = await said_next(feed), await said_next(feed)
        assert [row["number"] for row in first["landings"]] == [1]
        assert first.keys() - second.keys() == {"events", "landings"}
        recent.record_failure(ValueError("no"))
        members.now = [worker_status(partition(), happenings=tuple(recent))]
        third, fourth = await said_next(feed), await said_next(feed)
        assert [row["text"] for row in third["events"]] == ["ValueError: no"]
        assert "events" not in fourth
        assert (await said_next(_Feed(board))).keys() == first.keys(), "who has just come is told all"
        nursery.cancel_scope.cancel()


async def test_feed_before_the_first_update_waits_for_it(autojump_clock: MockClock) -> None:
    board = StatusBoard("g", FakeMemberSource(worker_status(partition())), stall_after=9.0, why_stopping=lambda: "")
    async with trio.open_nursery() as nursery:
        feed = _Feed(board)

        async def look_later() -> None:
            await trio.sleep(1)
            board.update()

        nursery.start_soon(look_later)
        assert (await said_next(feed))["group"] == "g"


async def test_partition_at_rest_is_so_also_between_two_looks(autojump_clock: MockClock) -> None:
    board = StatusBoard(
        "g", FakeMemberSource(worker_status(partition(asked_seconds=0.1))), stall_after=0.2, why_stopping=lambda: ""
    )
    async with trio.open_nursery() as nursery:
        nursery.start_soon(board.run)
        await trio.sleep(0.9)
        assert board.health().not_ready == ()
        assert board.full_document()["ready"]
        nursery.cancel_scope.cancel()
