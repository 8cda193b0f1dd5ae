"""Lives of a sink without a broker: a session of one partition, in which a log is landed to its end. Real threads."""

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
from tests.conformance.proof import offsets, prove_audit, prove_chain, prove_rows
from tests.handlers.kit import FakeClaim, FakeSession, batch

ORDERS = TopicPartition(TOPIC, 0)
KEY = ChainKey(SINK, *ORDERS)
MOST_SECONDS = 300.0
"""For what a life waits for: long on purpose, a busy machine may take a minute for one landing of Spark's."""


async def live(
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
    """A session of one partition whose log ends there; its engine shares the Spark of all that are open. The claim ends
    once all is read or, where it `waits`, is marked."""
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
            nursery.start_soon(_end_when_marked, claim, session, end)
        else:
            claim.end()
        await sink.consume_claim(session, claim)


def _claim(first: int, end: int, rows: int) -> FakeClaim:
    claim = FakeClaim(first)
    for offset in range(first, end, rows):
        claim.send(batch(offset, min(rows, end - offset)))
    return claim


async def _end_when_marked(claim: FakeClaim, session: FakeSession, end: int) -> None:
    with trio.fail_after(MOST_SECONDS):
        while (*ORDERS, end) not in session.marks:
            await trio.sleep(0.02)
    claim.end()


def nothing_of_use_is_left(contender: Contender, place: Place, spark: Any, end: int) -> None:
    """Check leftovers: work cancelled within Spark may leave files and snapshots for the sweep, but none in use."""
    table = contender.table(place)
    table.open(spark)
    left = table.leftovers(spark)
    assert not left or contender.runs is not Runs.THREADS, left
    for leftover in left:
        table.remove(spark, leftover)
    assert not table.leftovers(spark)
    prove_chain(table, spark, KEY, end)
    prove_rows(table, spark, offsets({KEY: end}))
    prove_audit(table, spark)
