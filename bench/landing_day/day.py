"""Runs one day: a producer, members that join, leave and are killed, and an observation of the table each second."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import attrs
import trio
from confluent_kafka import Consumer, KafkaException, TopicPartition

from bench.common.broker import running_kafka
from bench.common.events import event_table
from bench.common.filling import pool
from bench.common.machine import load
from bench.common.presenting import show_progress
from bench.common.tables import Table
from bench.land.jars import delta_jars
from bench.land.landed import Expected, batches, fault, files
from bench.landing_day.figures import Change, Observation, Production, Sent, failed_table, file_table, lag_table, lags
from bench.landing_day.landed_offsets import LandedOffsets, landed_offsets
from bench.landing_day.members import Members, open_group
from bench.landing_day.programs.producer import ProducerTask, Progress
from bench.members.rounds import leaves
from bench.members.running import MemberError, open_program
from tests.integration.connect_server import ConnectServer
from tests.integration.peers.running import ROOT
from tests.integration.real_kafka import RealKafka

PARTITIONS = 6
SIZE = 200
MAX_AGE = 10.0
KINDS = ("parquet", "delta")

_MASTER = "local[2]"
_OBSERVE_SECONDS = 1.0
"""Seconds between two observations of the table."""
_LANDED_SECONDS = 120.0
"""Seconds after the end of the producer in which all messages must land."""
_ANSWER_SECONDS = 20.0
_VERIFY_SECONDS = 300.0


@attrs.frozen
class Plan:
    """Days to run."""

    kinds: Sequence[str]
    repeats: int
    seconds: int
    rate: int


@attrs.frozen
class Day:
    """Observations of one day."""

    observations: Sequence[Observation]
    sent: Sequence[Sent]
    changes: Sequence[Change]
    notes: Sequence[str]


def measure(plan: Plan) -> Iterator[Table]:
    """Yield two tables for each repetition and kind. Raises JarsError."""
    with running_kafka() as kafka:
        for number in range(plan.repeats):
            for kind in plan.kinds:
                yield from _measure(kafka, plan, kind, f"day-{kind}-{number}")


def _measure(kafka: RealKafka, plan: Plan, kind: str, name: str) -> Iterator[Table]:
    title = f"{kind.capitalize()}, {plan.rate} rows/s"
    with (
        tempfile.TemporaryDirectory(prefix="sarameya-day-", ignore_cleanup_errors=True) as directory,
        ExitStack() as stack,
    ):
        place = Path(directory, "table")
        failures: list[str] = []
        try:
            run = _Run.set_up(kafka, plan, kind, name, place, stack)
            day = trio.run(run.observe)
            verified = run.verify()
            found = files(kind, place)
            expected = Expected(run.ends, event_table(pool(run.producer_task.contents)))
            if wrong := fault(batches(found, expected.rows.column_names), expected):
                raise MemberError(wrong)
        except* (MemberError, KafkaException, subprocess.TimeoutExpired) as raised:
            failures += (str(error) for error in leaves(raised))
        if failures:
            yield failed_table(title, "sarameya", "; ".join(failures), load())
            return
        points = lags(day.observations, Production(day.sent, PARTITIONS))
        yield lag_table(f"{title}: lag", points, day.changes, [*day.notes, verified, "each message once"], load())
        yield file_table(f"{title}: files", [file.stat().st_size for file in found], sum(run.ends), load())


@attrs.frozen
class _Run:
    """Set-up of one day, and its steps."""

    kafka: RealKafka
    kind: str
    place: Path
    master: str
    conf: dict[str, str]
    group: str
    producer_task: ProducerTask
    seconds: float
    has_landed: trio.Event = attrs.field(factory=trio.Event)
    """Set once all messages are in the table, and committed."""

    @classmethod
    def set_up(cls, kafka: RealKafka, plan: Plan, kind: str, name: str, place: Path, stack: ExitStack) -> _Run:
        """Prepare a run. `stack` stops the Spark Connect server, if there is one."""
        master, conf = _MASTER, {"spark.driver.memory": "1g"}
        if kind == "delta":
            properties = {
                "spark.jars": ",".join(map(str, delta_jars())),
                "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
                "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
                **conf,
            }
            server = stack.enter_context(ConnectServer(place.with_name("server"), properties, master=_MASTER))
            master, conf = server.url, {}
        producer_task = ProducerTask(
            bootstrap=kafka.bootstrap_servers[0],
            topic=kafka.create_topic(name, PARTITIONS),
            partitions=PARTITIONS,
            messages=plan.rate * plan.seconds,
            rate=plan.rate,
            size=SIZE,
        )
        return cls(kafka, kind, place, master, conf, name, producer_task, plan.seconds)

    @property
    def ends(self) -> list[int]:
        """Log end offset of each partition."""
        return [len(range(partition, self.producer_task.messages, PARTITIONS)) for partition in range(PARTITIONS)]

    async def observe(self) -> Day:
        """Run producer and members, and observe the table. Raises MemberError."""
        command = [sys.executable, "-m", "bench.landing_day.programs.producer", self.producer_task.to_json()]
        read_landed = landed_offsets(self.kind, self.place, self.producer_task.topic, PARTITIONS)
        observations: list[Observation] = []
        async with open_group(
            bootstrap=self.producer_task.bootstrap,
            group=self.group,
            topic=self.producer_task.topic,
            kind=self.kind,
            place=self.place,
            master=self.master,
            conf=self.conf,
            max_age=MAX_AGE,
        ) as members:
            await members.start()
            await members.start()
            await members.balanced(PARTITIONS)
            show_progress(f"{self.group}: two members own their share of the partitions")
            async with open_program(command, Progress.of_json) as producer, trio.open_nursery() as nursery:
                await producer.until(lambda: bool(producer.lines), "its start")
                nursery.start_soon(self._watch, read_landed, members, observations)
                changes, notes = await self._change(members, producer.lines[0].at)
                await producer.until(lambda: producer.lines[-1].is_over, "the end of sending", self.seconds + 60)
                if failures := producer.lines[-1].failures:
                    raise MemberError(f"{failures} messages were not sent")
                with trio.move_on_after(_LANDED_SECONDS):
                    await self.has_landed.wait()
                if not self.has_landed.is_set():
                    raise MemberError(f"{_LANDED_SECONDS:g} s after the end not all has landed: {observations[-1]}")
                nursery.cancel_scope.cancel()
            await members.leave(members.live[0])
        sent = [Sent(line.at, line.messages) for line in producer.lines]
        # After the last message the rate is not steady any more.
        return Day([each for each in observations if each.at <= sent[-1].at], sent, changes, notes)

    async def _change(self, members: Members, start: float) -> tuple[list[Change], list[str]]:
        """Make a member join, one leave, and kill one. Return the time of each change, and notes on its duration."""
        first, second = members.live
        changes, notes = [], []
        for quarter, name in enumerate(("a member joins", "a member leaves", "a member is killed"), 1):
            await _until(start + quarter * self.seconds / 4)
            changes.append(Change(time.monotonic(), name))
            show_progress(f"{self.group}: {name}")
            if quarter == 1:
                await members.start()
            elif quarter == 2:
                await members.leave(first)
            else:
                await members.kill(second)
            await members.balanced(PARTITIONS)
            notes.append(f"{name}: all have their share after {time.monotonic() - changes[-1].at:.1f} s")
        return changes, notes

    async def _watch(self, read_landed: LandedOffsets, members: Members, observations: list[Observation]) -> None:
        consumer = Consumer({"bootstrap.servers": self.producer_task.bootstrap, "group.id": self.group})
        try:
            while True:
                members.check()
                at = time.monotonic()
                landed = await trio.to_thread.run_sync(read_landed)
                committed = await trio.to_thread.run_sync(self._committed, consumer)
                observations.append(Observation(at, landed, committed))
                if list(landed) == list(committed) == self.ends:
                    self.has_landed.set()
                await _until(at + _OBSERVE_SECONDS)
        finally:
            consumer.close()

    def _committed(self, consumer: Consumer) -> list[int]:
        wanted = [TopicPartition(self.producer_task.topic, partition) for partition in range(PARTITIONS)]
        return [max(each.offset, 0) for each in consumer.committed(wanted, timeout=_ANSWER_SECONDS)]

    def verify(self) -> str:
        """Run `sarameya verify`, and return a note on it. Raises MemberError if the table is not proved."""
        command = [sys.executable, "-m", "sarameya.service", "verify", f"{self.kind}:{self.place}", "--json", "--quiet"]
        command += ["--bootstrap-servers", self.producer_task.bootstrap]
        if self.kind == "delta":
            command += ["--spark", self.master]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=_VERIFY_SECONDS, check=False)
        if done.returncode != 0:
            raise MemberError(
                f"sarameya verify ended with {done.returncode}: {done.stdout[-2000:]}{done.stderr[-2000:]}"
            )
        report = json.loads(done.stdout)
        return f"sarameya verify: proved, {sum(chain['links'] for chain in report['chains'])} links"


async def _until(at: float) -> None:
    """Sleep until this time of the monotonic clock, which all processes share."""
    await trio.sleep(max(at - time.monotonic(), 0.0))
