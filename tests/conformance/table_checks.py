"""Checks of a table in the test's process, while members work in other processes."""

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
from tests.conformance.invariants import chain_of, offsets, prove_chain, prove_facts, prove_rows

T = TypeVar("T")


@attrs.frozen
class Judge:
    """Checks one table, which receives the records of a cluster."""

    table: Table
    is_audited: bool
    bootstrap_servers: tuple[str, ...]
    _spark: Any

    async def run(self, work: Callable[[Any], T]) -> T:
        """Run `work(session)` in a thread: the members' broker needs the event loop meanwhile."""
        return await trio.to_thread.run_sync(work, self._spark)

    async def links(self, key: ChainKey) -> list[Link]:
        return await self.run(lambda spark: chain_of(self.table, spark, key))

    async def prove(self, ends: Mapping[ChainKey, int]) -> dict[ChainKey, list[Link]]:
        """Check chains, rows, and everything that `sarameya verify` checks.

        Args:
            ends: the offset of each chain up to which everything must have landed.

        Returns:
            The links of each chain.
        """
        chains = await self.run(partial(self._prove, ends))
        await self.verify()
        return chains

    async def verify(self) -> None:
        """Verify the table as `sarameya verify` does, if that command supports it."""
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

    async def sweep(self) -> int:
        """Remove all leftovers, of any age, as `sarameya sweep` does. Return their number."""
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
    """Open a judge of the contender's table."""
    session = contender.reading(place)
    spark = await trio.to_thread.run_sync(session.__enter__)
    try:
        yield Judge(contender.table(place), contender.is_audited, tuple(bootstrap_servers), spark)
    finally:
        with trio.CancelScope(shield=True):
            await trio.to_thread.run_sync(session.__exit__, None, None, None)
