"""Landings that are done and whose answers are lost, and the first read-back with each: nothing is tried again before
the table has been read, and what it has is found to be ours."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs
import pytest

from sarameya_handlers.landing.chain import Chain, Outcome, Settled
from sarameya_handlers.landing.links import ChainKey, Link
from sarameya_handlers.spark.tables.table import Checkpoint, Landing, Shape, Table
from tests.conformance.contenders import Contender, Place, every
from tests.conformance.lives import KEY, prove_leftovers_unused, run_session
from tests.conformance.proof import chain_of

A_LANDING = 4
"""Records."""
END = 2 * A_LANDING
"""Of the log. The first landing makes the table, where there is none; the second finds one."""


@attrs.define
class Unanswering:
    """Replacement of a table's own `land` and `links`.

    Each landing raises once it is done, and so does the first look at the chain after it.
    """

    table: Table
    tried: list[Link] = attrs.field(factory=list)
    lost: int = 0
    """Answers of landings."""
    unread: int = 0
    """Read-backs that failed."""

    def put_in_place(self, monkeypatch: pytest.MonkeyPatch) -> None:
        land, links = self.table.land, self.table.links

        def unanswering_land(spark: Any, landings: Sequence[Landing], shape: Shape, checkpoint: Checkpoint) -> None:
            self.tried += [landing.link for landing in landings]
            land(spark, landings, shape, checkpoint)
            self.lost += 1
            raise ConnectionResetError("the answer is lost")

        def unanswering_links(spark: Any, key: ChainKey, since: int) -> Sequence[Link]:
            if self.unread < self.lost:
                self.unread += 1
                raise TimeoutError("the table cannot be read now")
            return links(spark, key, since)

        monkeypatch.setattr(self.table, "land", unanswering_land)
        monkeypatch.setattr(self.table, "links", unanswering_links)


@every()
async def test_unanswered_append_is_found_and_not_retried(
    contender: Contender, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    settled: list[Settled] = []

    def watched(self: Chain, links: Sequence[Link]) -> Settled:
        settled.append(settle(self, links))
        return settled[-1]

    settle = Chain.settle
    monkeypatch.setattr(Chain, "settle", watched)
    unanswering = Unanswering(contender.table(place))
    unanswering.put_in_place(monkeypatch)
    # Open as long as the test lasts: the proof does not wait for another session.
    async with contender.engine(place) as engine:
        await run_session(contender, place, END, table=unanswering.table, max_rows=A_LANDING, waits=True)

        assert (unanswering.lost, unanswering.unread) == (2, 2)
        tried = [(link.number, link.from_offset, link.to_offset) for link in unanswering.tried]
        assert tried == [(1, 0, A_LANDING), (2, A_LANDING, END)], "each once"
        assert [one.outcome for one in settled] == [Outcome.LANDED, Outcome.LANDED]
        landed = await engine.run(lambda spark, _: chain_of(contender.table(place), spark, KEY), tag="chain")
        assert [link.attempt for link in landed] == [link.attempt for link in unanswering.tried]
        await engine.run(lambda spark, _: prove_leftovers_unused(contender, place, spark, END), tag="proof")
