"""The streams of a session that run: one task each for as long as the session, between which the claims are dealt.

Stands in for `Claims` where the handler is a `StreamHandler`. Owns the tasks and their cancel scopes. A claim that is
given up has ended once its stream's task has come back for more; one that does not come back in time is cancelled,
and since it reads other claims too, that ends the session.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial

import attrs
import trio

from sarameya.group.claim import Claim
from sarameya.group.claims import Claims, OnFailure, run_reader
from sarameya.group.handler import ConsumerGroupHandler, StreamHandler
from sarameya.group.handler_methods import awaited
from sarameya.group.pauses import Pauses
from sarameya.group.session import Session
from sarameya.group.stream import Stream
from sarameya.group.time_slices import HandlerTime
from sarameya.model import TopicPartition
from sarameya.observe import ClaimCancelled, Observer


@attrs.define(slots=True, eq=False)
class _Running:
    stream: Stream
    scope: trio.CancelScope = attrs.field(factory=trio.CancelScope)
    task: trio.lowlevel.Task | None = None
    asked_at: float = math.inf
    """Since when it has been asked for something: to come back, or to finish."""


@attrs.frozen(slots=True, eq=False)
class _Read:
    claim: Claim
    by: _Running
    ended: trio.Event = attrs.field(factory=trio.Event)


class Streams:
    """The running streams, and which claim is read by which."""

    def __init__(
        self,
        consume: Callable[[Stream], Awaitable[None]],
        count: int,
        *,
        on_failure: OnFailure,
        on_return: Callable[[str], None],
        observer: Observer,
        pauses: Pauses,
        handler_time: HandlerTime,
    ) -> None:
        """`on_return` is told what happened where a stream's task ended though the session goes on."""
        self._consume = consume
        self._on_failure = on_failure
        self._on_return = on_return
        self._observer = observer
        self._pauses = pauses
        self._streams = [_Running(Stream(index, self._gone, handler_time)) for index in range(count)]
        self._read: dict[TopicPartition, _Read] = {}
        self._nursery: trio.Nursery | None = None
        self._started = False
        self._ending = False

    def run_in(self, nursery: trio.Nursery) -> None:
        """Streams' tasks are `nursery`'s from now on."""
        self._nursery = nursery

    @property
    def partitions(self) -> frozenset[TopicPartition]:
        """What is being read now, claims that were given up and have not ended included."""
        return frozenset(self._read)

    @property
    def claims(self) -> tuple[Claim, ...]:
        """Those of these partitions."""
        return tuple(each.claim for each in self._read.values())

    def tasks(self, partitions: Iterable[TopicPartition]) -> Mapping[str, trio.lowlevel.Task]:
        """The tasks that still read one of these, or have to finish, by name."""
        reading = {read.by.stream.index for read in self._of(partitions)}
        return {
            str(running.stream): running.task
            for running in self._streams
            if running.task is not None and (self._ending or running.stream.index in reading)
        }

    def task_of(self, partition: TopicPartition) -> trio.lowlevel.Task | None:
        """Return the task that reads this partition, None where none does."""
        read = self._read.get(partition)
        return None if read is None else read.by.task

    def holder(self, claim: Claim) -> Claim:
        """Return the claim whose records the task that reads `claim` has; `claim` where it has none."""
        read = self._read.get(claim.topic_partition)
        return claim if read is None else read.by.stream._current or claim

    def start(self, claims: Iterable[Claim]) -> None:
        """Deal out these claims; the first time, start every stream's task, also those that get none yet."""
        assert self._nursery is not None, "no nursery to run in"
        for running, claim in self._deal(sorted(claims, key=lambda claim: claim.topic_partition)):
            self._read[claim.topic_partition] = _Read(claim, running)
            self._pauses.watch(claim)
            running.stream._add(claim)
        if not self._started:
            self._started = True
            for running in self._streams:
                self._nursery.start_soon(self._run_stream, running)

    def _deal(self, claims: Sequence[Claim]) -> Iterator[tuple[_Running, Claim]]:
        """Range-wise, as the assignor of that name deals to members; what comes later goes to who has the least."""
        if self._read:
            for claim in claims:
                yield min(self._streams, key=lambda running: running.stream._count), claim
        else:
            rest = iter(claims)
            each, more = divmod(len(claims), len(self._streams))
            for running in self._streams:
                for _ in range(each + (running.stream.index < more)):
                    yield running, next(rest)

    def ask(self, partitions: Iterable[TopicPartition], deadline: float) -> Sequence[Claim]:
        """Give claims up; streams that have not come back for more at `deadline` are cancelled then.

        A second call can only hasten. Returns the claims, for whoever feeds them to stop.
        """
        asked = self._of(partitions)
        for read in asked:
            _hasten(read.by, deadline)
            read.by.stream._give_up(read.claim)
        return [read.claim for read in asked]

    def ask_all(self, deadline: float) -> Sequence[Claim]:
        """The session ends: every stream is to finish, and what has not at `deadline` is cancelled then."""
        self._ending = True
        for running in self._streams:
            _hasten(running, deadline)
            running.stream._end()
        return [read.claim for read in self._read.values()]

    async def ended(self, partitions: Iterable[TopicPartition]) -> None:
        """Wait until nothing of these partitions is in a handler's hands any more."""
        for read in self._of(partitions):
            await read.ended.wait()

    def _of(self, partitions: Iterable[TopicPartition]) -> list[_Read]:
        """In order, so that a run under virtual time can be repeated to the letter."""
        return [self._read[tp] for tp in sorted(partitions) if tp in self._read]

    async def _run_stream(self, running: _Running) -> None:
        stream = running.stream
        running.task = trio.lowlevel.current_task()
        try:
            if await run_reader(self._consume(stream), running.scope, partial(self._failed, stream)):
                if running.scope.cancelled_caught:
                    self._cancelled(running)
                elif not self._ending:
                    self._on_return(f"{stream} returned")
        finally:
            running.task = None
            stream._slice.take_back()
            for claim in tuple(stream.claims.values()):
                stream._drop(claim)

    def _failed(self, stream: Stream, error: Exception) -> None:
        error.add_note(f"in {stream}")
        self._on_failure(str(stream), stream._held, error)

    def _cancelled(self, running: _Running) -> None:
        grace = trio.current_time() - running.asked_at
        for partition in running.stream.claims:
            self._observer(ClaimCancelled(partition, grace))
        if not self._ending:
            self._on_return(f"{running.stream} was cancelled: it did not come back when a partition was given up")

    def _gone(self, claim: Claim) -> None:
        """What was given up is in nobody's hands any more, or the stream's task has ended."""
        read = self._read.pop(claim.topic_partition)
        self._pauses.unwatch(claim)
        claim._end()
        if not (self._ending or read.by.stream._going):
            read.by.asked_at = read.by.scope.deadline = math.inf
        read.ended.set()
        self._observer(claim._farewell())


def readers(
    handler: ConsumerGroupHandler,
    session: Session,
    *,
    on_failure: OnFailure,
    on_return: Callable[[str], None],
    observer: Observer,
    pauses: Pauses,
    handler_time: HandlerTime,
) -> Claims | Streams:
    """One task a claim, or a task for several: as the handler wants it."""
    if isinstance(handler, StreamHandler):
        return Streams(
            partial(awaited, handler.consume_stream, session),
            handler.streams,
            on_failure=on_failure,
            on_return=on_return,
            observer=observer,
            pauses=pauses,
            handler_time=handler_time,
        )
    return Claims(
        partial(awaited, handler.consume_claim, session),
        on_failure=on_failure,
        on_return=on_return,
        observer=observer,
        pauses=pauses,
    )


def _hasten(running: _Running, deadline: float) -> None:
    running.asked_at = min(running.asked_at, trio.current_time())
    running.scope.deadline = min(running.scope.deadline, deadline)
