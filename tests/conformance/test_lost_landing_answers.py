"""Landings that succeed but lose their answer, while the first read afterwards fails too.

The sink retries nothing before it has read the table, and recognizes its own link there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs
import pytest

from sarameya_handlers.landing.chain import Chain, Outcome, Settled
from sarameya_handlers.landing.links import ChainKey, Link
from sarameya_handlers.spark.tables.table import Checkpoint, Landing, Shape, Table
from tests.conformance.contenders import Contender, Place, every
from tests.conformance.invariants import chain_of
from tests.conformance.sink_sessions import KEY, prove_leftovers_unused, run_session

pytestmark = pytest.mark.landing(what="no response")

BATCH_RECORDS = 4
"""Number of records in a landing."""
END = 2 * BATCH_RECORDS
"""The log end. The first landing creates the table if there is none; the second finds a table."""


@attrs.define
class LostAnswers:
    """Replaces a table's `land` and `links`: each landing raises after its success, and so does the next read."""

    table: Table
    attempted: list[Link] = attrs.field(factory=list)
    lost: int = 0
    """Number of landings whose answer was lost."""
    unread: int = 0
    """Number of reads that failed."""

    def install(self, monkeypatch: pytest.MonkeyPatch) -> None:
        land, links = self.table.land, self.table.links

        def land_without_answer(spark: Any, landings: Sequence[Landing], shape: Shape, checkpoint: Checkpoint) -> None:
            self.attempted += [landing.link for landing in landings]
            land(spark, landings, shape, checkpoint)
            self.lost += 1
            raise ConnectionResetError("the answer is lost")

        def links_after_failure(spark: Any, key: ChainKey, since: int) -> Sequence[Link]:
            if self.unread < self.lost:
                self.unread += 1
                raise TimeoutError("the table cannot be read now")
            return links(spark, key, since)

        monkeypatch.setattr(self.table, "land", land_without_answer)
        monkeypatch.setattr(self.table, "links", links_after_failure)


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
    lost_answers = LostAnswers(contender.table(place))
    lost_answers.install(monkeypatch)
    # One engine for the whole test: the checks need not wait for another session.
    async with contender.engine(place) as engine:
        await run_session(contender, place, END, table=lost_answers.table, max_rows=BATCH_RECORDS, waits=True)

        assert (lost_answers.lost, lost_answers.unread) == (2, 2)
        attempted = [(link.number, link.from_offset, link.to_offset) for link in lost_answers.attempted]
        assert attempted == [(1, 0, BATCH_RECORDS), (2, BATCH_RECORDS, END)], "one attempt for each link"
        assert [one.outcome for one in settled] == [Outcome.LANDED, Outcome.LANDED]
        landed = await engine.run(lambda spark, _: chain_of(contender.table(place), spark, KEY), tag="chain")
        assert [link.attempt for link in landed] == [link.attempt for link in lost_answers.attempted]
        await engine.run(lambda spark, _: prove_leftovers_unused(contender, place, spark, END), tag="proof")
