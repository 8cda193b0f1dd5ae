"""A landing member in a process of its own, which can stop or kill itself at an exact phase of a landing.

    python -m tests.conformance.member CONTENDER '{"bootstrap_servers": [...], "place": [...], ...}'

The process reads commands from standard input, a line each, and answers each with {"did": command}. It reports events
as lines of JSON on standard output: assignments, phases of landings, its end. `members.Member` controls it from a test.

    join                          become a member, and land
    arm PHASE kill|stop [NTH]     send SIGKILL or SIGSTOP to the landing thread when it reaches PHASE the NTH time
    disarm
    close                         leave in order
"""

from __future__ import annotations

import json
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Sequence
from typing import Any

import attrs
import trio

from sarameya import Config, ConsumerGroup, Session, TopicPartition
from sarameya_handlers import SparkSink
from sarameya_handlers.spark.shaping.shaping import Shaping
from sarameya_handlers.spark.tables.table import Landing, Phase
from tests.conformance.contenders import CONTENDERS, Place, rows_by_slow_spark


def report(**fields: Any) -> None:
    """Write a report in one call, so that lines of several threads do not mix."""
    os.write(1, json.dumps({**fields, "time": time.time()}).encode() + b"\n")


@attrs.define
class Trap:
    """A trap at one phase of landings, which stops or kills the landing thread. The main thread arms it."""

    phase: str = ""
    how: str = ""
    remaining: int = 0
    """Number of times that a landing must still reach the phase."""

    def arm(self, phase: str, how: str, nth: str = "1") -> None:
        self.phase, self.how, self.remaining = Phase(phase), how, int(nth)

    def __call__(self, phase: Phase, landings: Sequence[Landing]) -> None:
        """Report a phase, and stop or kill this thread if the trap is armed for it. Runs in the landing thread."""
        links = [landing.link for landing in landings]
        fields = [[str(link.key), link.number, link.from_offset, link.to_offset] for link in links]
        is_hit = False
        if phase == self.phase:
            self.remaining -= 1
            is_hit = self.remaining == 0
        report(phase=phase, links=fields, attempts=[link.attempt for link in links], hit=is_hit)
        if is_hit:
            self.phase = ""
            # To this thread, not to the process: the signal takes effect before the call returns.
            signal.pthread_kill(threading.get_ident(), signal.SIGKILL if self.how == "kill" else signal.SIGSTOP)


class ReportingSink(SparkSink):
    """A sink that reports its member id, and assigned, revoked and lost partitions."""

    async def setup(self, session: Session) -> None:
        await super().setup(session)
        report(member=session.member_id)

    async def partitions_assigned(self, session: Session, partitions: Sequence[TopicPartition]) -> None:
        await super().partitions_assigned(session, partitions)
        report(assigned=[str(partition) for partition in partitions], generation=session.generation)

    async def partitions_revoked(self, session: Session, partitions: Sequence[TopicPartition]) -> None:
        await super().partitions_revoked(session, partitions)
        report(revoked=[str(partition) for partition in partitions])

    async def partitions_lost(self, session: Session, partitions: Sequence[TopicPartition]) -> None:
        await super().partitions_lost(session, partitions)
        report(lost=[str(partition) for partition in partitions])


async def run_commands(trap: Trap, group: ConsumerGroup, join: trio.Event) -> None:
    """Execute the commands on standard input. Close the group when the input ends."""
    async with trio.lowlevel.FdStream(os.dup(0)) as commands:
        incomplete = b""
        async for data in commands:
            *lines, incomplete = (incomplete + data).split(b"\n")
            for line in lines:
                command, *arguments = line.decode().split()
                if command == "join":
                    join.set()
                elif command == "arm":
                    trap.arm(*arguments)
                elif command == "disarm":
                    trap.phase = ""
                elif command == "close":
                    group.close_nowait()
                report(did=line.decode())
    group.close_nowait()  # the test's process has ended


async def run(name: str, settings: dict[str, Any]) -> None:
    """Run a member.

    Args:
        name: the name of the contender.
        settings: the settings that `members.Members.start` has written.
    """
    contender, place, trap = CONTENDERS[name], Place.from_arguments(settings["place"]), Trap()
    sink = ReportingSink(
        contender.table(place),
        shape=Shaping(transform=rows_by_slow_spark) if settings["is_slow"] else contender.shape,
        spark=contender.engine(place),
        on_phase=trap,
        **settings["sink"],
    )
    config = Config(offset_initial="oldest", **settings["config"])
    group = ConsumerGroup(settings["bootstrap_servers"], settings["group"], config)
    join = trio.Event()
    async with sink, group, trio.open_nursery() as nursery:
        nursery.start_soon(run_commands, trap, group, join)
        report(ready=os.getpid())
        await join.wait()
        await group.consume(settings["topics"], sink)
        nursery.cancel_scope.cancel()
    report(ended=True)


if __name__ == "__main__":
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    trio.run(run, sys.argv[1], json.loads(sys.argv[2]))
