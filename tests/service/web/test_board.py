"""A board between its looks, and what it makes for whom."""

from __future__ import annotations

import trio
from trio.testing import MockClock

from sarameya.service.web.board import Board
from sarameya.service.web.members import Heard
from tests.service.web.made import heard, partition


class Members:
    """Who is heard now."""

    def __init__(self, *members: Heard) -> None:
        self.now = list(members)

    def heard(self) -> list[Heard]:
        return self.now


async def test_partition_at_rest_is_so_also_between_two_looks(autojump_clock: MockClock) -> None:
    board = Board("g", Members(heard(partition(asked_seconds=0.1))), stall_after=0.2, why_stopping=lambda: "")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(board.run)
        await trio.sleep(0.9)
        assert board.health().not_ready == ()
        assert board.full_document()["ready"]
        nursery.cancel_scope.cancel()
