"""The suite's core on Apache Kafka: killed and stopped members, aborted transactions, and lag in Kafka's own tool."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio

from sarameya_handlers.landing.links import ChainKey
from sarameya_handlers.spark.tables.table import Phase
from tests.conformance.brokers import GROUP, SINK
from tests.conformance.contenders import CONTENDERS, Contender, Place, Runs, each
from tests.conformance.invariants import chain_of, prove_rows
from tests.conformance.members import members
from tests.conformance.table_checks import Judge, judged
from tests.integration.real_kafka import GroupLine, RealKafka
from tests.integration.real_kafka.producing import produce, produce_transaction

pytestmark = [pytest.mark.integration, pytest.mark.landing(what="on Kafka")]

PARQUET = CONTENDERS["parquet"]
SECONDS = 60.0
WITH_SPARK = 300.0
"""Timeout with Spark, in seconds. A busy machine may need a minute for one landing."""

in_thread = partial(trio.to_thread.run_sync, abandon_on_cancel=True)


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealKafka]:
    missing = [program for program in ("java", "mvn") if shutil.which(program) is None]
    if missing:
        pytest.skip(f"needs {' and '.join(missing)} (`make test` prints how to install them)")
    with RealKafka(tmp_path_factory.mktemp("kafka")) as running:
        yield running


class Log:
    """The log of one partition. `shown` has the records that a read_committed consumer receives."""

    def __init__(self, kafka: RealKafka, topic: str) -> None:
        self.kafka = kafka
        self.topic = kafka.create_topic(topic)
        self.key = ChainKey(SINK, topic, 0)
        self.shown: set[tuple[int, int]] = set()

    async def produce(self, count: int) -> None:
        self.shown |= await in_thread(partial(produce, self.kafka, self.topic, [b"%d" % n for n in range(count)]))

    async def transact(self) -> None:
        """Produce two transactions: an aborted one, and a committed one."""
        for commit in (False, True):
            run = partial(produce_transaction, self.kafka, self.topic, b"of a transaction", commit=commit)
            await in_thread(run)
        # Each transaction has a record and a marker.
        line = await self.describe()
        assert line is not None
        assert line.end is not None
        self.shown.add((0, line.end - 2))

    async def describe(self) -> GroupLine | None:
        """Return the group's line of this topic; None before its first assignment or commit."""
        lines = [line for line in await in_thread(self.kafka.describe_group, GROUP) if line.topic == self.topic]
        return lines[0] if lines else None

    async def until_landed(self, seconds: float = SECONDS) -> None:
        """Wait until Kafka shows no lag, neither of records nor of transaction markers."""
        with trio.fail_after(seconds):
            while (line := await self.describe()) is None or line.lag != 0:
                await trio.sleep(0.1)

    async def check(self, judge: Judge) -> None:
        def prove(spark: Any) -> None:
            links = chain_of(judge.table, spark, self.key)
            assert links[0].from_offset == 0
            prove_rows(judge.table, spark, [(self.topic, *place) for place in self.shown])

        await judge.run(prove)
        await judge.verify()


@each("parquet", "delta", "iceberg", exhaustive=["delta", "iceberg"])
async def test_killed_members_on_kafka_land_each_record_once(
    kafka: RealKafka, contender: Contender, place: Place
) -> None:
    log = await in_thread(Log, kafka, f"orders-{contender.name}")
    phase = next(phase for phase in (Phase.WRITTEN, Phase.LINKED) if phase in contender.phases)
    seconds = SECONDS if contender.runs is Runs.THREADS else WITH_SPARK
    config = {"session_timeout": 6.0, "isolation_level": "read_committed"}
    async with (
        judged(contender, place, kafka.bootstrap_servers) as judge,
        members(contender, place, kafka.bootstrap_servers, [log.topic], config=config) as group,
    ):
        first, second, third = await group.start(), await group.start(), await group.start()
        await first.join()
        await log.produce(100)
        await log.until_landed(seconds)
        await log.transact()
        await log.until_landed(seconds)
        await log.check(judge)

        await first.arm("kill", phase)
        await log.produce(100)
        await first.until_killed()
        await second.join()
        await log.until_landed(seconds)
        await log.check(judge)

        await second.arm("stop", phase)
        await log.transact()
        await log.produce(100)
        await second.until_stopped()
        await third.join()
        await log.until_landed(seconds)
        await log.check(judge)
        second.resume()
        await second.next_report("losing its partitions", lambda report: "lost" in report)

        await in_thread(kafka.await_members, GROUP, 2, SECONDS)
        await log.produce(100)
        await log.until_landed(seconds)
        await group.close()
        await log.check(judge)


async def test_lag_counts_the_records_that_have_not_landed(kafka: RealKafka, tmp_path: Path) -> None:
    log = await in_thread(Log, kafka, "lagging")
    place = Place(tmp_path)
    async with members(
        PARQUET, place, kafka.bootstrap_servers, [log.topic], sink={"max_rows": 50, "max_age": 3600.0}
    ) as group:
        member = await group.start()
        await member.join()
        await log.produce(50)
        await log.until_landed()
        await log.produce(80)
        with trio.fail_after(SECONDS):
            while (line := await log.describe()) is None or line.committed != 100:
                await trio.sleep(0.1)
        assert (line.lag, line.end) == (30, 130), "thirty records are collected, but not landed"
        await group.close()  # lands them
        line = await log.describe()
        assert line is not None
        assert line.lag == 0
