"""A member of a group that lands, in a process of its own; it stops or dies exactly where it is told to.

    python -m tests.conformance.member CONTENDER '{"bootstrap_servers": [...], "place": [...], ...}'

Takes commands as lines on its standard input, answers each with {"did": command}, and tells in lines of JSON what
happens: assignments, phases of landings, its end. `members.Member` is the test's end of it.

    join                          become a member, and land
    arm PHASE kill|stop [NTH]     SIGKILL or SIGSTOP to this very thread when a landing is there, the NTH time from now
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


def tell(**what: Any) -> None:
    """Write a report in one call, so that lines of several threads do not mix."""
    os.write(1, json.dumps({**what, "time": time.time()}).encode() + b"\n")


@attrs.define
class Wire:
    """A trap in a phase of a landing. Called by the landing thread; armed between landings."""

    phase: str = ""
    how: str = ""
    left: int = 0

    def arm(self, phase: str, how: str, nth: str = "1") -> None:
        self.phase, self.how, self.left = Phase(phase), how, int(nth)

    def __call__(self, phase: Phase, landings: Sequence[Landing]) -> None:
        links = [[str(one.link.key), one.link.number, one.link.from_offset, one.link.to_offset] for one in landings]
        is_hit = False
        if phase == self.phase:
            self.left -= 1
            is_hit = self.left == 0
        tell(phase=phase, links=links, attempts=[one.link.attempt for one in landings], hit=is_hit)
        if is_hit:
            self.phase = ""
            # To this thread, not to the process: by the time the call is over it has struck.
            signal.pthread_kill(threading.get_ident(), signal.SIGKILL if self.how == "kill" else signal.SIGSTOP)


class TellingSink(SparkSink):
    """Tells what it is given and what it loses."""

    async def setup(self, session: Session) -> None:
        await super().setup(session)
        tell(member=session.member_id)

    async def partitions_assigned(self, session: Session, partitions: Sequence[TopicPartition]) -> None:
        await super().partitions_assigned(session, partitions)
        tell(assigned=[str(one) for one in partitions], generation=session.generation)

    async def partitions_revoked(self, session: Session, partitions: Sequence[TopicPartition]) -> None:
        await super().partitions_revoked(session, partitions)
        tell(revoked=[str(one) for one in partitions])

    async def partitions_lost(self, session: Session, partitions: Sequence[TopicPartition]) -> None:
        await super().partitions_lost(session, partitions)
        tell(lost=[str(one) for one in partitions])


async def obey(wire: Wire, group: ConsumerGroup, join: trio.Event) -> None:
    async with trio.lowlevel.FdStream(os.dup(0)) as commands:
        left = b""
        async for piece in commands:
            *lines, left = (left + piece).split(b"\n")
            for line in lines:
                word, *more = line.decode().split()
                if word == "join":
                    join.set()
                elif word == "arm":
                    wire.arm(*more)
                elif word == "disarm":
                    wire.phase = ""
                elif word == "close":
                    group.close_nowait()
                tell(did=line.decode())
    group.close_nowait()  # the test is gone


async def live(name: str, told: dict[str, Any]) -> None:
    contender, place, wire = CONTENDERS[name], Place.from_words(told["place"]), Wire()
    sink = TellingSink(
        contender.table(place),
        shape=Shaping(transform=rows_by_slow_spark) if told["is_slow"] else contender.shape,
        spark=contender.engine(place),
        on_phase=wire,
        **told["sink"],
    )
    config = Config(offset_initial="oldest", **told["config"])
    group = ConsumerGroup(told["bootstrap_servers"], told["group"], config)
    join = trio.Event()
    async with sink, group, trio.open_nursery() as nursery:
        nursery.start_soon(obey, wire, group, join)
        tell(ready=os.getpid())
        await join.wait()
        await group.consume(told["topics"], sink)
        nursery.cancel_scope.cancel()
    tell(ended=True)


if __name__ == "__main__":
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    trio.run(live, sys.argv[1], json.loads(sys.argv[2]))
