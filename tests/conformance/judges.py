"""Checks a table from the test's process, while members work in other processes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, TypeVar

import attrs
import trio

from sarameya import Config
from sarameya.service import Cluster
from sarameya_handlers.audit.commands.sweep_command import restate_heads
from sarameya_handlers.audit.sweep_plan import plan_sweep, to_restate
from sarameya_handlers.audit.verify.fact_collection import Audit, gather
from sarameya_handlers.landing.links import ChainKey, Link
from sarameya_handlers.spark.tables.table import Table
from tests.conformance.contenders import Contender, Place
from tests.conformance.proof import chain_of, offsets, prove_chain, prove_facts, prove_rows

T = TypeVar("T")


@attrs.frozen
class Judge:
    """The judge of one table, which lands from a cluster."""

    table: Table
    is_audited: bool
    bootstrap_servers: tuple[str, ...]
    _spark: Any

    async def run(self, work: Callable[[Any], T]) -> T:
        """`work(session)` in a thread: the loop is the members' broker's, too."""
        return await trio.to_thread.run_sync(work, self._spark)

    async def links(self, key: ChainKey) -> list[Link]:
        return await self.run(lambda spark: chain_of(self.table, spark, key))

    async def proves(self, ends: Mapping[ChainKey, int]) -> dict[ChainKey, list[Link]]:
        """All that has to hold when everything up to these ends is said to have landed: chains, rows, and whatever
        `sarameya verify` looks at. Returns the chains."""
        chains = await self.run(partial(self._prove, ends))
        await self.verifies()
        return chains

    async def verifies(self) -> None:
        """Verify the table as `sarameya verify` does, if it can."""
        if not self.is_audited:
            return
        audit = Audit(
            table=self.table,
            run=self.run,
            place=Cluster(self.bootstrap_servers, Config()),
            by_spark=self.table.needs_spark,
        )
        prove_facts(await gather(audit, now=0.0))

    def _prove(self, ends: Mapping[ChainKey, int], spark: Any) -> dict[ChainKey, list[Link]]:
        assert {*self.table.keys(spark)} == {*ends}
        chains = {key: prove_chain(self.table, spark, key, end) for key, end in ends.items()}
        prove_rows(self.table, spark, offsets(ends))
        return chains

    async def sweeps(self) -> int:
        """Remove what was left behind, however young, as `sarameya sweep` does; and how much that was."""
        return await self.run(self._sweep)

    def _sweep(self, spark: Any) -> int:
        plan = plan_sweep(self.table.leftovers(spark), 0.0, now=2e10)
        heads = self.table.heads(spark, self.table.keys(spark)) if self.is_audited else {}
        restate_heads(spark, self.table, to_restate(heads.values(), plan), 0.0)
        for swept in plan:
            self.table.remove(spark, swept.leftover)
        removed = {swept.leftover.name for swept in plan}
        assert not removed & {leftover.name for leftover in self.table.leftovers(spark)}, "all is swept"
        return len(plan)


@asynccontextmanager
async def judged(contender: Contender, place: Place, bootstrap_servers: list[str]) -> AsyncIterator[Judge]:
    session = contender.reading(place)
    spark = await trio.to_thread.run_sync(session.__enter__)
    try:
        yield Judge(contender.table(place), contender.is_audited, tuple(bootstrap_servers), spark)
    finally:
        with trio.CancelScope(shield=True):
            await trio.to_thread.run_sync(session.__exit__, None, None, None)
