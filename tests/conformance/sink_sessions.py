"""Sessions of a sink without a broker: one partition's log is landed to its end, in real threads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import trio

from sarameya import TopicPartition
from sarameya_handlers import SparkSink
from sarameya_handlers.landing.links import ChainKey
from sarameya_handlers.spark.tables.table import Landing, Phase, Shape, Table
from tests.conformance.brokers import SINK, TOPIC
from tests.conformance.contenders import Contender, Place, Runs
from tests.conformance.invariants import offsets, prove_audit, prove_chain, prove_rows
from tests.handlers.kit import FakeClaim, FakeSession, batch

ORDERS = TopicPartition(TOPIC, 0)
KEY = ChainKey(SINK, *ORDERS)
MOST_SECONDS = 300.0
"""Timeout of waits: long on purpose, since a busy machine may need a minute for one landing with Spark."""


async def run_session(
    contender: Contender,
    place: Place,
    end: int,
    on_phase: Callable[[Phase, Sequence[Landing]], None] = lambda phase, landings: None,
    *,
    table: Table | None = None,
    shape: Shape | None = None,
    max_rows: int = 100,
    waits: bool = False,
) -> None:
    """Run a session of one partition whose log ends at `end`. Engines that are open at the same time share one Spark.

    Args:
        contender: the table adapter and its engine.
        place: the place of the test.
        end: the log end.
        on_phase: called at each phase of a landing.
        table: the table to use instead of the contender's.
        shape: the shape to use instead of the contender's.
        max_rows: the number of rows in a landing.
        waits: whether the claim stops only after all messages are marked, not as soon as they are read.
    """
    session = FakeSession(log=(0, end))
    sink = SparkSink(
        table or contender.table(place),
        shape=shape or contender.shape,
        spark=contender.engine(place),
        on_phase=on_phase,
        max_rows=max_rows,
    )
    async with sink, trio.open_nursery() as nursery:
        await sink.partitions_assigned(session, [ORDERS])
        start = await sink.start_offset(ORDERS, None)
        claim = _claim(0 if start is None else start.offset, end, max_rows)
        if waits:
            nursery.start_soon(_stop_when_marked, claim, session, end)
        else:
            claim.end()
        await sink.consume_claim(session, claim)


def _claim(first: int, end: int, rows: int) -> FakeClaim:
    claim = FakeClaim(first)
    for offset in range(first, end, rows):
        claim.send(batch(offset, min(rows, end - offset)))
    return claim


async def _stop_when_marked(claim: FakeClaim, session: FakeSession, end: int) -> None:
    with trio.fail_after(MOST_SECONDS):
        while (*ORDERS, end) not in session.marks:
            await trio.sleep(0.02)
    claim.end()


def prove_leftovers_unused(
    contender: Contender, place: Place, spark: Any, end: int, *, may_leave: bool = False
) -> None:
    """Remove all leftovers, and check that the table needed none.

    Work cancelled within Spark may leave some. Other work only if `may_leave`.
    """
    table = contender.table(place)
    table.open(spark)
    leftovers = table.leftovers(spark)
    assert not leftovers or may_leave or contender.runs is not Runs.THREADS, leftovers
    for leftover in leftovers:
        table.remove(spark, leftover)
    assert not table.leftovers(spark)
    prove_chain(table, spark, KEY, end)
    prove_rows(table, spark, offsets({KEY: end}))
    prove_audit(table, spark)
