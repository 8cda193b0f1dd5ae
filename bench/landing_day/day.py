"""The day itself: a producer, members that come and go, and who looks at the table each second."""

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
from confluent_kafka import Consumer, TopicPartition

from bench.common.broker import running_kafka
from bench.common.events import parsed
from bench.common.filling import pool
from bench.common.machine import load
from bench.common.presenting import say
from bench.common.tables import Table
from bench.land.jars import delta_jars
from bench.land.landed import Expected, batches, fault, files
from bench.landing_day.figures import Change, Look, Production, Sent, failed_table, file_table, lag_table, lags
from bench.landing_day.looking import Looking, looking
from bench.landing_day.members import Members, opened
from bench.landing_day.programs.producer import Progress, Steady
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
_LOOK_SECONDS = 1.0
_LANDED_SECONDS = 120.0
"""All has landed so long after the producer has ended, or the day has failed."""
_ANSWER_SECONDS = 20.0
_VERIFY_SECONDS = 300.0


@attrs.frozen
class Plan:
    kinds: Sequence[str]
    repeats: int
    seconds: int
    rate: int


@attrs.frozen
class Day:
    """What was seen."""

    looks: Sequence[Look]
    sent: Sequence[Sent]
    changes: Sequence[Change]
    notes: Sequence[str]


def measure(plan: Plan) -> Iterator[Table]:
    """Two tables for each kind and repetition. Raises JarsError."""
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
            scene = _Scene.set_up(kafka, plan, kind, name, place, stack)
            day = trio.run(scene.play)
            verified = scene.verify()
            found = files(kind, place)
            expected = Expected(scene.ends, parsed(pool(scene.producing.contents)))
            if wrong := fault(batches(found, expected.rows.column_names), expected):
                raise MemberError(wrong)
        except* MemberError as raised:
            failures += (str(error) for error in leaves(raised))
        if failures:
            yield failed_table(title, "sarameya", "; ".join(failures), load())
            return
        told = lags(day.looks, Production(day.sent, PARTITIONS))
        yield lag_table(f"{title}: lag", told, day.changes, [*day.notes, verified, "each message once"], load())
        yield file_table(f"{title}: files", [file.stat().st_size for file in found], sum(scene.ends), load())


@attrs.frozen
class _Scene:
    kafka: RealKafka
    kind: str
    place: Path
    master: str
    conf: dict[str, str]
    group: str
    producing: Steady
    seconds: float
    has_landed: trio.Event = attrs.field(factory=trio.Event)
    """Set once all is in the table, and committed."""

    @classmethod
    def set_up(cls, kafka: RealKafka, plan: Plan, kind: str, name: str, place: Path, stack: ExitStack) -> _Scene:
        """`stack` ends what is started for it."""
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
        producing = Steady(
            bootstrap=kafka.bootstrap_servers[0],
            topic=kafka.create_topic(name, PARTITIONS),
            partitions=PARTITIONS,
            messages=plan.rate * plan.seconds,
            rate=plan.rate,
            size=SIZE,
        )
        return cls(kafka, kind, place, master, conf, name, producing, plan.seconds)

    @property
    def ends(self) -> list[int]:
        return [len(range(partition, self.producing.messages, PARTITIONS)) for partition in range(PARTITIONS)]

    async def play(self) -> Day:
        """Raises MemberError."""
        command = [sys.executable, "-m", "bench.landing_day.programs.producer", self.producing.to_json()]
        look = looking(self.kind, self.place, self.producing.topic, PARTITIONS)
        looks: list[Look] = []
        async with opened(
            bootstrap=self.producing.bootstrap,
            group=self.group,
            topic=self.producing.topic,
            kind=self.kind,
            place=self.place,
            master=self.master,
            conf=self.conf,
            max_age=MAX_AGE,
        ) as members:
            await members.start()
            await members.start()
            await members.share(PARTITIONS)
            say(f"{self.group}: two members have their share")
            async with open_program(command, Progress.of_json) as producer, trio.open_nursery() as nursery:
                await producer.until(lambda: bool(producer.lines), "that it sends")
                nursery.start_soon(self._watch, look, members, looks)
                changes, notes = await self._change(members, producer.lines[0].at)
                await producer.until(lambda: producer.lines[-1].is_over, "that all is sent", self.seconds + 60)
                if failures := producer.lines[-1].failures:
                    raise MemberError(f"{failures} messages were not sent")
                with trio.move_on_after(_LANDED_SECONDS):
                    await self.has_landed.wait()
                if not self.has_landed.is_set():
                    raise MemberError(f"{_LANDED_SECONDS:g} s after the last message it had come to {looks[-1]}")
                nursery.cancel_scope.cancel()
            await members.leave(members.live[0])
        sent = [Sent(line.at, line.messages) for line in producer.lines]
        # Behind the last message there is no steady rate any more.
        return Day([one for one in looks if one.at <= sent[-1].at], sent, changes, notes)

    async def _change(self, members: Members, began: float) -> tuple[list[Change], list[str]]:
        """Have a member join, one leave, one be killed; when, and how long each took."""
        first, second = members.live
        changes, notes = [], []
        for quarter, name in enumerate(("a member joins", "a member leaves", "a member is killed"), 1):
            await _until(began + quarter * self.seconds / 4)
            changes.append(Change(time.monotonic(), name))
            say(f"{self.group}: {name}")
            if quarter == 1:
                await members.start()
            elif quarter == 2:
                await members.leave(first)
            else:
                await members.kill(second)
            await members.share(PARTITIONS)
            notes.append(f"{name}: all have their share after {time.monotonic() - changes[-1].at:.1f} s")
        return changes, notes

    async def _watch(self, look: Looking, members: Members, looks: list[Look]) -> None:
        consumer = Consumer({"bootstrap.servers": self.producing.bootstrap, "group.id": self.group})
        try:
            while True:
                members.check()
                at = time.monotonic()
                landed = await trio.to_thread.run_sync(look)
                committed = await trio.to_thread.run_sync(self._committed, consumer)
                looks.append(Look(at, landed, committed))
                if list(landed) == list(committed) == self.ends:
                    self.has_landed.set()
                await _until(at + _LOOK_SECONDS)
        finally:
            consumer.close()

    def _committed(self, consumer: Consumer) -> list[int]:
        wanted = [TopicPartition(self.producing.topic, partition) for partition in range(PARTITIONS)]
        return [max(one.offset, 0) for one in consumer.committed(wanted, timeout=_ANSWER_SECONDS)]

    def verify(self) -> str:
        """What `sarameya verify` says, in a word. Raises MemberError where that is not that the table is proved."""
        command = [sys.executable, "-m", "sarameya.service", "verify", f"{self.kind}:{self.place}", "--json", "--quiet"]
        command += ["--bootstrap-servers", self.producing.bootstrap]
        if self.kind == "delta":
            command += ["--spark", self.master]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=_VERIFY_SECONDS, check=False)
        if done.returncode != 0:
            raise MemberError(
                f"sarameya verify ended with {done.returncode}: {done.stdout[-2000:]}{done.stderr[-2000:]}"
            )
        told = json.loads(done.stdout)
        return f"sarameya verify: proved, {sum(chain['links'] for chain in told['chains'])} links"


async def _until(at: float) -> None:
    """Of the clock that processes share."""
    await trio.sleep(max(at - time.monotonic(), 0.0))
