"""The tasks of a `StreamHandler`: each reads a stream of several claims."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial

import trio

from sarameya.group.claim import Claim
from sarameya.group.delivery.pauses import Pauses
from sarameya.group.delivery.time_slices import HandlerTime
from sarameya.group.session_machine.messages import ReaderFailed, ReaderReturned
from sarameya.group.session_machine.readers import OnReaderEnd, Readers, ReaderTask, in_slice, run_guarded
from sarameya.group.stream import Stream
from sarameya.model import TopicPartition
from sarameya.observe import ClaimCancelled, Observer


class StreamReaders(Readers):
    """A task for each stream, for the length of the session. Claims are distributed over the streams.

    A stopped claim has ended once its stream's task requests the next message. A task that does not do so in time is
    cancelled. That ends the session, since the task reads other claims, too.
    """

    def __init__(
        self,
        consume: Callable[[Stream], Awaitable[None]],
        count: int,
        on_end: OnReaderEnd,
        observer: Observer,
        pauses: Pauses,
        handler_time: HandlerTime,
    ) -> None:
        super().__init__(on_end, observer, pauses)
        self._consume = consume
        self._streams = {Stream(index, self._on_dropped, handler_time): ReaderTask() for index in range(count)}
        self._stream_of: dict[TopicPartition, Stream] = {}
        self._has_started = False
        self._is_ending = False

    def holder(self, claim: Claim) -> Claim:
        stream = self._stream_of.get(claim.topic_partition)
        return claim if stream is None else stream._current or claim

    def tasks(self, partitions: Iterable[TopicPartition] | None) -> Mapping[str, trio.lowlevel.Task]:
        reading = {id(read.reader) for read in self._of(partitions)}
        return {
            str(stream): reader.task
            for stream, reader in self._streams.items()
            if reader.task is not None and (self._is_ending or id(reader) in reading)
        }

    def start(self, claims: Iterable[Claim]) -> None:
        """Distribute these claims over the streams. The first call starts the tasks of all streams, even if empty."""
        for stream, claim in self._distribute(sorted(claims, key=lambda claim: claim.topic_partition)):
            self._stream_of[claim.topic_partition] = stream
            self._add(claim, self._streams[stream])
            stream._add(claim)
        if not self._has_started:
            self._has_started = True
            for stream, reader in self._streams.items():
                self._spawn(partial(self._run, stream, reader))

    def _distribute(self, claims: Sequence[Claim]) -> Iterator[tuple[Stream, Claim]]:
        """Yield the stream of each claim.

        Claims that start together while no claim is read are distributed in ranges, as by the range assignor. Others go
        to the stream with the fewest claims.
        """
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
        """Stop reading these partitions. None means the end of the session: every stream ends."""
        if partitions is None:
            self._is_ending = True
            for stream, reader in self._streams.items():
                reader.hasten(grace_ends)
                stream._end()
            return self.claims
        stopped = self._of(partitions)
        for read in stopped:
            read.reader.hasten(grace_ends)
            self._stream_of[read.claim.topic_partition]._revoke(read.claim)
        return [read.claim for read in stopped]

    async def _run(self, stream: Stream, reader: ReaderTask) -> None:
        reader.task = trio.lowlevel.current_task()
        try:
            if await run_guarded(in_slice(self._consume, stream), reader.scope, partial(self._failed, stream)):
                if reader.scope.cancelled_caught:
                    self._report_cancelled(stream, reader)
                elif not self._is_ending:
                    self._on_end(ReaderReturned(f"{stream} returned"))
        finally:
            reader.task = None
            stream._slice.release_messages()
            for claim in tuple(stream.claims.values()):
                stream._drop(claim)

    def _failed(self, stream: Stream, error: Exception) -> None:
        error.add_note(f"in {stream}")
        held = stream._held
        partition, position = (None, -1) if held is None else (held.topic_partition, held.position)
        self._on_end(ReaderFailed(str(stream), partition, position, error))

    def _report_cancelled(self, stream: Stream, reader: ReaderTask) -> None:
        grace = trio.current_time() - reader.stopped_at
        for partition in stream.claims:
            self._observer(ClaimCancelled(partition, grace))
        if not self._is_ending:
            reason = f"{stream} was cancelled: it did not request the next message after a partition was revoked"
            self._on_end(ReaderReturned(reason))

    def _on_dropped(self, claim: Claim) -> None:
        """Remove a claim whose messages are processed. Without other stopped claims, lift its stream's time limit."""
        stream = self._stream_of.pop(claim.topic_partition)
        if not (self._is_ending or stream._revoked):
            reader = self._streams[stream]
            reader.stopped_at = reader.scope.deadline = math.inf
        self._ended(claim)
