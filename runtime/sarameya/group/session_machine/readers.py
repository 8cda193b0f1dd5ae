"""The handler's tasks that read claims: a task for each claim (here), or a task for several (`stream_readers.py`).

`Readers` owns the tasks and their cancel scopes, and reports their ends and failures as events. The state machine
decides when a reader stops.
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

OnReaderEnd = Callable[[ReaderFailed | ReaderReturned], None]
"""Called when a reader has failed, or has returned without being stopped."""
Feed = TypeVar("Feed", Claim, Stream)


@attrs.define(slots=True, eq=False)
class ReaderTask:
    """A task of the handler.

    Attributes:
        scope: Its deadline is the end of the grace of a stopped task.
        task: The running task; None before its start and after its end.
        stopped_at: Time of the first call of `hasten`.
    """

    scope: trio.CancelScope = attrs.field(factory=trio.CancelScope)
    task: trio.lowlevel.Task | None = None
    stopped_at: float = math.inf

    def hasten(self, grace_ends: float) -> None:
        """Cancel the task at `grace_ends`, or earlier if an earlier time was set."""
        self.stopped_at = min(self.stopped_at, trio.current_time())
        self.scope.deadline = min(self.scope.deadline, grace_ends)


@attrs.frozen(slots=True, eq=False)
class _ReadClaim:
    """A claim that is read, and the task that reads it."""

    claim: Claim
    reader: ReaderTask
    ended: trio.Event = attrs.field(factory=trio.Event)


class Readers(ABC):
    """The readers of one session, and the claims that they read."""

    def __init__(self, on_end: OnReaderEnd, observer: Observer, pauses: Pauses) -> None:
        self._on_end = on_end
        self._observer = observer
        self._pauses = pauses
        self._read: dict[TopicPartition, _ReadClaim] = {}
        self._nursery: trio.Nursery | None = None

    def run_in(self, nursery: trio.Nursery) -> None:
        """Set the nursery in which the tasks run."""
        self._nursery = nursery

    @property
    def claims(self) -> tuple[Claim, ...]:
        """The claims that are read, including stopped claims whose tasks still process messages."""
        return tuple(each.claim for each in self._read.values())

    def task_of(self, partition: TopicPartition) -> trio.lowlevel.Task | None:
        """Return the task that reads this partition, or None."""
        read = self._read.get(partition)
        return None if read is None else read.reader.task

    @abstractmethod
    def holder(self, claim: Claim) -> Claim:
        """Return the claim whose records are processed by the task that reads `claim`.

        A task of a stream reads several claims. If it processes no records, the result is `claim`.
        """

    @abstractmethod
    def tasks(self, partitions: Iterable[TopicPartition] | None) -> Mapping[str, trio.lowlevel.Task]:
        """Return the tasks that still read one of these partitions, by name; for None, all tasks."""

    @abstractmethod
    def start(self, claims: Iterable[Claim]) -> None:
        """Start to read these claims."""

    @abstractmethod
    def stop(self, partitions: Iterable[TopicPartition] | None, grace_ends: float) -> Sequence[Claim]:
        """Stop reading these partitions. Their claims drop buffered records, and their iterators end.

        A repeated call can only move the end of the grace to an earlier time.

        Args:
            partitions: The partitions; None for all.
            grace_ends: Time at which tasks that still run are cancelled.

        Returns:
            The stopped claims. The caller releases their partition consumers.
        """

    async def drained(self, partitions: Iterable[TopicPartition]) -> None:
        """Wait until no task processes messages of these partitions any more."""
        for read in self._of(partitions):
            await read.ended.wait()

    def _of(self, partitions: Iterable[TopicPartition] | None) -> list[_ReadClaim]:
        """Return the claims of these partitions (None for all), sorted: runs under virtual time must be repeatable."""
        return [self._read[tp] for tp in sorted(self._read if partitions is None else partitions) if tp in self._read]

    def _spawn(self, run: Callable[[], Awaitable[None]]) -> None:
        assert self._nursery is not None, "no nursery to run in"
        self._nursery.start_soon(run)

    def _add(self, claim: Claim, reader: ReaderTask) -> None:
        self._read[claim.topic_partition] = _ReadClaim(claim, reader)
        self._pauses.watch(claim)

    def _ended(self, claim: Claim) -> None:
        read = self._read.pop(claim.topic_partition)
        self._pauses.unwatch(claim)
        claim._end()  # releases the claim's bytes if the task returned by itself, or was cancelled from outside
        read.ended.set()
        self._observer(claim._end_event())


class ClaimReaders(Readers):
    """A task for each claim."""

    def __init__(
        self, consume: Callable[[Claim], Awaitable[None]], on_end: OnReaderEnd, observer: Observer, pauses: Pauses
    ) -> None:
        super().__init__(on_end, observer, pauses)
        self._consume = consume

    def holder(self, claim: Claim) -> Claim:
        return claim

    def tasks(self, partitions: Iterable[TopicPartition] | None) -> Mapping[str, trio.lowlevel.Task]:
        return {_name(read.claim): read.reader.task for read in self._of(partitions) if read.reader.task is not None}

    def start(self, claims: Iterable[Claim]) -> None:
        for claim in claims:
            self._add(claim, task := ReaderTask())
            self._spawn(partial(self._run, claim, task))

    def stop(self, partitions: Iterable[TopicPartition] | None, grace_ends: float) -> Sequence[Claim]:
        stopped = self._of(partitions)
        for read in stopped:
            read.reader.hasten(grace_ends)
            read.claim._end()
        return [read.claim for read in stopped]

    async def _run(self, claim: Claim, reader: ReaderTask) -> None:
        reader.task = trio.lowlevel.current_task()
        try:
            if await run_guarded(in_slice(self._consume, claim), reader.scope, partial(self._failed, claim)):
                if reader.scope.cancelled_caught:
                    self._observer(ClaimCancelled(claim.topic_partition, trio.current_time() - reader.stopped_at))
                elif not claim.has_ended:
                    self._on_end(ReaderReturned(f"{_name(claim)} returned"))
        finally:
            claim._slice.release_messages()
            self._ended(claim)

    def _failed(self, claim: Claim, error: Exception) -> None:
        failed = claim.report.failed_offset
        offset = claim.position if failed is None else failed
        self._on_end(ReaderFailed(_name(claim), claim.topic_partition, offset, error))


def _name(claim: Claim) -> str:
    return f"claim of {claim.topic_partition}"


async def in_slice(consume: Callable[[Feed], Awaitable[None]], feed: Feed) -> None:
    """Call the handler once it is its turn (`time_slices.py`): it may block before it requests its first message."""
    await feed._slice.start()
    if not feed.has_ended:
        await consume(feed)


async def run_guarded(work: Awaitable[None], scope: trio.CancelScope, on_failure: Callable[[Exception], None]) -> bool:
    """Run a call of the handler in a cancel scope.

    Args:
        work: The call.
        scope: The cancel scope.
        on_failure: Called with the Exception that the call raises, if any.

    Returns:
        True if the call has returned, or was cancelled by `scope`; False if it failed.

    Raises:
        BaseException: Other exceptions of the call, such as `KeyboardInterrupt`, or a cancellation from outside.
    """
    try:
        with scope:
            await work
    except Exception as error:  # noqa: BLE001 - any exception of a handler is recorded, and raised by consume()
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
