"""A worker tells its supervisor of itself: a line of JSON a second, through a pipe that was opened for it.

No file, no port and no name are needed for that, and the pipe ends with either of the two.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Sequence

import attrs
import trio
from cattrs.preconf.json import make_converter

from sarameya.model import TopicPartition
from sarameya.service.web.members import Due, Heard, Restart
from sarameya.service.web.recent import Happening, Kept, line_of, told_in_a_line
from sarameya.service.web.roster import Roster
from sarameya.telemetry.snapshot import MemberSnapshot

INTERVAL = 1.0
"""Seconds from one line to the next."""
_CHUNK = 65536

logger = logging.getLogger("sarameya")

_converter = make_converter()
_converter.register_structure_hook(TopicPartition, lambda value, _: TopicPartition(*value))


@attrs.frozen(slots=True)
class Line:
    """What a worker says: of itself now, and of what has happened since the last one."""

    snapshot: MemberSnapshot | None
    failure: str
    happenings: tuple[Happening, ...]
    restart: Restart | None = None

    def to_json(self) -> str:
        return _converter.dumps(self)

    @classmethod
    def from_json(cls, text: str) -> Line:
        return _converter.loads(text, cls)


async def tell(roster: Roster, fd: int) -> None:
    """Write a line for the roster's member each second, until cancelled or nobody reads any more."""
    os.set_inheritable(fd, False)  # what handlers start must not keep it open
    told = 0
    try:
        async with trio.lowlevel.FdStream(fd) as pipe:
            while True:
                try:
                    (heard,) = roster.heard()
                    new = tuple(one for one in heard.happenings if one.number > told)
                    told = max((one.number for one in new), default=told)
                    line = Line(heard.snapshot, heard.failure, new, heard.restart).to_json() + "\n"
                except Exception:
                    logger.exception("what this worker does cannot be told")
                    return
                await pipe.send_all(line.encode())
                await trio.sleep(INTERVAL)
    except trio.BrokenResourceError:
        pass  # the supervisor is gone, which our standard input tells, too


@attrs.define(slots=True)
class _Worker:
    pid: int = 0
    last: Line | None = None
    at: float | None = None
    """When it last told of itself, or began; None where no process runs."""
    failure: str = ""
    due: Due | None = None
    kept: Kept = attrs.field(factory=Kept)


class Ear:
    """Hears the workers of a supervisor."""

    def __init__(self, workers: Sequence[int], wall_clock: Callable[[], float] = time.time) -> None:
        self._workers = {worker: _Worker() for worker in workers}
        self._wall_clock = wall_clock
        self._misheard: set[int] = set()

    def began(self, worker: int, pid: int) -> None:
        """A process was started for it."""
        found = self._workers[worker]
        found.pid, found.last, found.failure, found.at = pid, None, "", trio.current_time()
        found.due = None

    def ended(self, worker: int, how: str) -> None:
        """It has failed, told or not: what it last said is true no more."""
        found = self._workers[worker]
        found.last, found.failure, found.at = None, how, None
        # Of numbers it had its own, and this is behind all of them.
        text = f"worker {worker} {how}"
        found.kept.add(Happening(number=0, at=self._wall_clock(), kind="Failure", level="error", text=text))

    def has_told(self, worker: int) -> bool:
        """Whether its process has told anything yet. Before that it imports, and does not listen for signals."""
        return self._workers[worker].last is not None

    def restarts(self, worker: int, delay: float, failures: int) -> None:
        """It is started again in so many seconds, after so many failures in a row."""
        self._workers[worker].due = Due(trio.current_time() + delay, failures)

    def none_began(self, error: Exception, delay: float, failures: int) -> None:
        """Note that no worker has started, since what they share has not; it is started again in `delay` seconds."""
        for worker in self._workers:
            self.ended(worker, f"waits for what workers share: {told_in_a_line(error)}")
            self.restarts(worker, delay, failures)

    async def listen(self, worker: int, fd: int) -> None:
        """Hear a worker until its pipe ends; takes `fd` over."""
        rest = b""
        async with trio.lowlevel.FdStream(fd) as pipe:
            while chunk := await pipe.receive_some(_CHUNK):
                *lines, rest = (rest + chunk).split(b"\n")
                for line in lines:
                    self._hear(worker, line)

    def _hear(self, worker: int, line: bytes) -> None:
        """What is no line of ours is left out: the package may have been upgraded beneath a supervisor."""
        try:
            self._heard(worker, Line.from_json(line.decode()))
        except Exception as error:  # noqa: BLE001 - whatever cattrs makes of it
            if worker not in self._misheard:
                logger.error("what worker %d tells of itself is not understood: %s", worker, line_of(error))
            self._misheard.add(worker)

    def heard(self) -> list[Heard]:
        """Of each, what it last said."""
        now = trio.current_time()
        return [
            Heard(
                worker=worker,
                snapshot=None if found.last is None else found.last.snapshot,
                age=0.0 if found.at is None else now - found.at,
                pid=found.pid,
                failure=found.failure or (found.last.failure if found.last is not None else ""),
                restart=found.due.seen(now) if found.due else (found.last.restart if found.last is not None else None),
                happenings=tuple(found.kept),
            )
            for worker, found in self._workers.items()
        ]

    def _heard(self, worker: int, line: Line) -> None:
        found = self._workers[worker]
        found.last, found.at = line, trio.current_time()
        for happening in line.happenings:
            found.kept.add(happening)
