"""The tasks of a `StreamHandler`: each reads a stream of several claims."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial

import trio

from sarameya.group.claim import Claim
from sarameya.group.delivery.pauses import Pauses
from sarameya.group.delivery.time_slices import HandlerTime
from sarameya.group.handler import ConsumerGroupHandler, StreamHandler
from sarameya.group.handler_methods import awaited
from sarameya.group.session import Session
from sarameya.group.session_machine.messages import ReaderFailed, ReaderReturned
from sarameya.group.session_machine.readers import ClaimReaders, Readers, ReaderTask, Report, in_slice, run_guarded
from sarameya.group.stream import Stream
from sarameya.model import TopicPartition
from sarameya.observe import ClaimCancelled, Observer


class StreamReaders(Readers):
    """A task for each stream, as long as the session; claims are distributed over them.

    A claim that is stopped has ended once its stream's task has come back for more. A task that does not come back in
    time is cancelled; since it reads other claims too, that ends the session.
    """

    def __init__(
        self,
        consume: Callable[[Stream], Awaitable[None]],
        count: int,
        report: Report,
        observer: Observer,
        pauses: Pauses,
        handler_time: HandlerTime,
    ) -> None:
        super().__init__(report, observer, pauses)
        self._consume = consume
        self._streams = {Stream(index, self._dropped, handler_time): ReaderTask() for index in range(count)}
        self._stream_of: dict[TopicPartition, Stream] = {}
        self._has_started = False
        self._is_ending = False

    def holder(self, claim: Claim) -> Claim:
        stream = self._stream_of.get(claim.topic_partition)
        return claim if stream is None else stream._current or claim

    def tasks(self, partitions: Iterable[TopicPartition] | None) -> Mapping[str, trio.lowlevel.Task]:
        reading = {id(read.by) for read in self._of(partitions)}
        return {
            str(stream): by.task
            for stream, by in self._streams.items()
            if by.task is not None and (self._is_ending or id(by) in reading)
        }

    def start(self, claims: Iterable[Claim]) -> None:
        """Deal out these claims; the first time, start every stream's task, also those that get none yet."""
        for stream, claim in self._deal(sorted(claims, key=lambda claim: claim.topic_partition)):
            self._stream_of[claim.topic_partition] = stream
            self._add(claim, self._streams[stream])
            stream._add(claim)
        if not self._has_started:
            self._has_started = True
            for stream, by in self._streams.items():
                self._spawn(partial(self._run, stream, by))

    def _deal(self, claims: Sequence[Claim]) -> Iterator[tuple[Stream, Claim]]:
        """Range-wise, as the assignor of that name assigns; claims that come later go to the shortest stream."""
        if self._read:
            for claim in claims:
                yield min(self._streams, key=lambda stream: stream._count), claim
        else:
            rest = iter(claims)
            each, more = divmod(len(claims), len(self._streams))
            for stream in self._streams:
                for _ in range(each + (stream.index < more)):
                    yield stream, next(rest)

    def stop(self, partitions: Iterable[TopicPartition] | None, grace_ends: float) -> Sequence[Claim]:
        """Stop reading these partitions, None for the end of the session: then every stream ends."""
        if partitions is None:
            self._is_ending = True
            for stream, by in self._streams.items():
                by.hasten(grace_ends)
                stream._end()
            return self.claims
        stopped = self._of(partitions)
        for read in stopped:
            read.by.hasten(grace_ends)
            self._stream_of[read.claim.topic_partition]._revoke(read.claim)
        return [read.claim for read in stopped]

    async def _run(self, stream: Stream, by: ReaderTask) -> None:
        by.task = trio.lowlevel.current_task()
        try:
            if await run_guarded(in_slice(self._consume, stream), by.scope, partial(self._failed, stream)):
                if by.scope.cancelled_caught:
                    self._cancelled(stream, by)
                elif not self._is_ending:
                    self._report(ReaderReturned(f"{stream} returned"))
        finally:
            by.task = None
            stream._slice.take_back()
            for claim in tuple(stream.claims.values()):
                stream._drop(claim)

    def _failed(self, stream: Stream, error: Exception) -> None:
        error.add_note(f"in {stream}")
        held = stream._held
        partition, position = (None, -1) if held is None else (held.topic_partition, held.position)
        self._report(ReaderFailed(str(stream), partition, position, error))

    def _cancelled(self, stream: Stream, by: ReaderTask) -> None:
        grace = trio.current_time() - by.stopped_at
        for partition in stream.claims:
            self._observer(ClaimCancelled(partition, grace))
        if not self._is_ending:
            reason = f"{stream} was cancelled: it did not ask for more messages after a partition was revoked"
            self._report(ReaderReturned(reason))

    def _dropped(self, claim: Claim) -> None:
        """Forget a claim of which no task has anything any more."""
        stream = self._stream_of.pop(claim.topic_partition)
        if not (self._is_ending or stream._revoked):
            by = self._streams[stream]
            by.stopped_at = by.scope.deadline = math.inf
        self._ended(claim)


def open_readers(
    handler: ConsumerGroupHandler,
    session: Session,
    report: Report,
    observer: Observer,
    pauses: Pauses,
    handler_time: HandlerTime,
) -> Readers:
    """Return the readers that this handler wants: a task for each claim, or a task for several."""
    if isinstance(handler, StreamHandler):
        consume_stream = partial(awaited, handler.consume_stream, session)
        return StreamReaders(consume_stream, handler.streams, report, observer, pauses, handler_time)
    return ClaimReaders(partial(awaited, handler.consume_claim, session), report, observer, pauses)
