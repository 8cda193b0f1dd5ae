"""The handler's tasks that read claims: one for each claim (here), or one for several (`stream_readers.py`).

`Readers` owns the tasks and their cancel scopes; it reports what happens to them as events. When and why a reader stops
is the state machine's to decide.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TypeVar

import attrs
import trio

from sarameya.group.claim import Claim
from sarameya.group.delivery.pauses import Pauses
from sarameya.group.session_machine.messages import ReaderFailed, ReaderReturned
from sarameya.group.stream import Stream
from sarameya.model import TopicPartition
from sarameya.observe import ClaimCancelled, Observer

Report = Callable[[ReaderFailed | ReaderReturned], None]
"""Takes what has happened to a reader."""
Feed = TypeVar("Feed", Claim, Stream)


@attrs.define(slots=True, eq=False)
class ReaderTask:
    """A task of the handler. `stopped_at` is when it was first asked to come back, or to end."""

    scope: trio.CancelScope = attrs.field(factory=trio.CancelScope)
    task: trio.lowlevel.Task | None = None
    stopped_at: float = math.inf

    def hasten(self, grace_ends: float) -> None:
        self.stopped_at = min(self.stopped_at, trio.current_time())
        self.scope.deadline = min(self.scope.deadline, grace_ends)


@attrs.frozen(slots=True, eq=False)
class _Read:
    """A claim that is read, and the task that reads it."""

    claim: Claim
    by: ReaderTask
    ended: trio.Event = attrs.field(factory=trio.Event)


class Readers(ABC):
    """The readers of one session, and the claims that they read."""

    def __init__(self, report: Report, observer: Observer, pauses: Pauses) -> None:
        self._report = report
        self._observer = observer
        self._pauses = pauses
        self._read: dict[TopicPartition, _Read] = {}
        self._nursery: trio.Nursery | None = None

    def run_in(self, nursery: trio.Nursery) -> None:
        """Start tasks in `nursery` from now on."""
        self._nursery = nursery

    @property
    def claims(self) -> tuple[Claim, ...]:
        """The claims that are read now, and those that were stopped and have not ended."""
        return tuple(each.claim for each in self._read.values())

    def task_of(self, partition: TopicPartition) -> trio.lowlevel.Task | None:
        """Return the task that reads this partition, None where none does."""
        read = self._read.get(partition)
        return None if read is None else read.by.task

    @abstractmethod
    def holder(self, claim: Claim) -> Claim:
        """Return the claim whose records the task that reads `claim` has; `claim` where it has none."""

    @abstractmethod
    def tasks(self, partitions: Iterable[TopicPartition] | None) -> Mapping[str, trio.lowlevel.Task]:
        """Return the tasks that still read one of these partitions, by name; for None, all of them."""

    @abstractmethod
    def start(self, claims: Iterable[Claim]) -> None:
        """Read these claims."""

    @abstractmethod
    def stop(self, partitions: Iterable[TopicPartition] | None, grace_ends: float) -> Sequence[Claim]:
        """Stop reading these partitions, None for all: their iterators end.

        A task that still goes on at `grace_ends` is cancelled then. A repeated call can only bring that nearer.

        Returns:
            The claims, whose feeds are to be released.
        """

    async def drained(self, partitions: Iterable[TopicPartition]) -> None:
        """Wait until no task has anything of these partitions any more."""
        for read in self._of(partitions):
            await read.ended.wait()

    def _of(self, partitions: Iterable[TopicPartition] | None) -> list[_Read]:
        """Return these, sorted, so that a run under virtual time can be repeated exactly."""
        return [self._read[tp] for tp in sorted(self._read if partitions is None else partitions) if tp in self._read]

    def _spawn(self, run: Callable[[], Awaitable[None]]) -> None:
        assert self._nursery is not None, "no nursery to run in"
        self._nursery.start_soon(run)

    def _add(self, claim: Claim, by: ReaderTask) -> None:
        self._read[claim.topic_partition] = _Read(claim, by)
        self._pauses.watch(claim)

    def _ended(self, claim: Claim) -> None:
        read = self._read.pop(claim.topic_partition)
        self._pauses.unwatch(claim)
        claim._end()  # where the task ended by itself, or was cancelled from outside: what it holds is given back
        read.ended.set()
        self._observer(claim._end_event())


class ClaimReaders(Readers):
    """A task for each claim."""

    def __init__(
        self, consume: Callable[[Claim], Awaitable[None]], report: Report, observer: Observer, pauses: Pauses
    ) -> None:
        super().__init__(report, observer, pauses)
        self._consume = consume

    def holder(self, claim: Claim) -> Claim:
        return claim

    def tasks(self, partitions: Iterable[TopicPartition] | None) -> Mapping[str, trio.lowlevel.Task]:
        return {_name(read.claim): read.by.task for read in self._of(partitions) if read.by.task is not None}

    def start(self, claims: Iterable[Claim]) -> None:
        for claim in claims:
            self._add(claim, task := ReaderTask())
            self._spawn(partial(self._run, claim, task))

    def stop(self, partitions: Iterable[TopicPartition] | None, grace_ends: float) -> Sequence[Claim]:
        stopped = self._of(partitions)
        for read in stopped:
            read.by.hasten(grace_ends)
            read.claim._end()
        return [read.claim for read in stopped]

    async def _run(self, claim: Claim, by: ReaderTask) -> None:
        by.task = trio.lowlevel.current_task()
        try:
            if await run_guarded(in_slice(self._consume, claim), by.scope, partial(self._failed, claim)):
                if by.scope.cancelled_caught:
                    self._observer(ClaimCancelled(claim.topic_partition, trio.current_time() - by.stopped_at))
                elif not claim.has_ended:
                    self._report(ReaderReturned(f"{_name(claim)} returned"))
        finally:
            claim._slice.take_back()
            self._ended(claim)

    def _failed(self, claim: Claim, error: Exception) -> None:
        self._report(ReaderFailed(_name(claim), claim.topic_partition, claim.position, error))


def _name(claim: Claim) -> str:
    return f"claim of {claim.topic_partition}"


async def in_slice(consume: Callable[[Feed], Awaitable[None]], feed: Feed) -> None:
    """Call the handler in a time slice: it may block before it asks for its first message."""
    await feed._slice.begin()
    if not feed.has_ended:
        await consume(feed)


async def run_guarded(work: Awaitable[None], scope: trio.CancelScope, on_failure: Callable[[Exception], None]) -> bool:
    """Run a task of the handler in its scope. Pass what it raises to `on_failure`, but for what is no Exception.

    Returns:
        Whether it has returned, or was cancelled by its scope.
    """
    try:
        with scope:
            await work
    except Exception as error:  # noqa: BLE001 - whatever a handler raises is recorded, and raised by consume()
        on_failure(error)
        return False
    except BaseExceptionGroup as group:
        failed, others = group.split(Exception)
        if failed is not None:
            on_failure(failed)
        if others is not None:
            raise others from None
        return False
    return True
