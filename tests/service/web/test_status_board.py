"""Updates of a status board, and the documents that it makes for its clients."""

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
    """Fake source of the statuses of members."""

    def __init__(self, *members: WorkerStatus) -> None:
        self.now = list(members)

    def statuses(self) -> list[WorkerStatus]:
        return self.now


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list to which each part of a document is added when it is made."""
    found: list[str] = []
    for name in ("document", "history"):
        make = getattr(board_module, name)

        def recorded_make(*about: Any, name: str = name, make: Any = make, **more: Any) -> Any:
            found.append(name)
            return make(*about, **more)

        monkeypatch.setattr(board_module, name, recorded_make)
    return found


async def next_document(feed: _Feed) -> dict[str, Any]:
    text = await anext(feed)
    document: dict[str, Any] = json.loads(text.removeprefix("data: "))
    return document


async def test_document_is_made_once_for_all_clients(autojump_clock: MockClock, made: list[str]) -> None:
    board = StatusBoard("g", FakeMemberSource(worker_status(partition())), stall_after=9.0, why_stopping=lambda: "")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(board.run)
        await trio.sleep(10.5)
        assert made == []
        assert board.full_document()["points"]["at"][9:], "the board is updated without clients, too"
        made.clear()
        feeds = [_Feed(board) for _ in range(3)]
        for feed in feeds:
            await next_document(feed)
        assert made == ["document", "history"]
        async with trio.open_nursery() as listening:
            for feed in feeds:
                listening.start_soon(next_document, feed)
        assert made == ["document", "history", "document"]
        await trio.sleep(10)
        assert made == ["document", "history", "document"], "no document is made without clients"
        nursery.cancel_scope.cancel()


async def test_events_and_batches_are_sent_only_if_new(autojump_clock: MockClock) -> None:
    recent = EventRecorder()
    recent(landed(1))
    members = FakeMemberSource(worker_status(partition(), happenings=tuple(recent)))
    board = StatusBoard("g", members, stall_after=9.0, why_stopping=lambda: "")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(board.run)
        await trio.sleep(0.5)
        feed = _Feed(board)
        first, second = await next_document(feed), await next_document(feed)
        assert [row["number"] for row in first["landings"]] == [1]
        assert first.keys() - second.keys() == {"events", "landings"}
        recent.record_failure(ValueError("no"))
        members.now = [worker_status(partition(), happenings=tuple(recent))]
        third, fourth = await next_document(feed), await next_document(feed)
        assert [row["text"] for row in third["events"]] == ["ValueError: no"]
        assert "events" not in fourth
        assert (await next_document(_Feed(board))).keys() == first.keys(), "a new client receives everything"
        nursery.cancel_scope.cancel()


async def test_feed_before_the_first_update_waits_for_it(autojump_clock: MockClock) -> None:
    board = StatusBoard("g", FakeMemberSource(worker_status(partition())), stall_after=9.0, why_stopping=lambda: "")
    async with trio.open_nursery() as nursery:
        feed = _Feed(board)

        async def update_later() -> None:
            await trio.sleep(1)
            board.update()

        nursery.start_soon(update_later)
        assert (await next_document(feed))["group"] == "g"


async def test_idle_partition_is_ready_between_two_updates(autojump_clock: MockClock) -> None:
    board = StatusBoard(
        "g", FakeMemberSource(worker_status(partition(asked_seconds=0.1))), stall_after=0.2, why_stopping=lambda: ""
    )
    async with trio.open_nursery() as nursery:
        nursery.start_soon(board.run)
        await trio.sleep(0.9)
        assert board.health().not_ready == ()
        assert board.full_document()["ready"]
        nursery.cancel_scope.cancel()
