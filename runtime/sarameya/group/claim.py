"""A claimed partition as its handler reads it: message by message, or batch by batch.

Records are decoded by the task that reads the claim, so a corrupt batch fails this claim only. For `async for message`
one record batch at a time is decoded into messages; for `batches()`, several may become the columns of one
`MessageBatch`. Both iterators share one position: each continues where the other stopped. A cancelled read loses no
message.

A paused claim returns nothing. The rest of its current batch is set aside, so a pause adds no cost to reading a
message. Buffered messages are returned without a checkpoint, except between time slices (`time_slices.py`).

`protocol/fetch/undecoded.py` decodes; `present_batch.py` counts the messages taken from the current batch.

A rule that is easily broken:

- Iterators are classes, not async generators. A generator ends at its first cancellation, and trio warns if a loop over
  a generator is left by `break`. Test:
  `tests/consumer/test_fetching.py::test_interrupted_iteration_can_be_resumed`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from threading import get_ident
from time import perf_counter

import attrs
import trio

from sarameya.config import Config
from sarameya.consumer.partition_consumer import PartitionConsumer
from sarameya.consumer.stopwatch import Stopwatch
from sarameya.errors import InterceptorError
from sarameya.group.delivery.interceptors import Intercept
from sarameya.group.delivery.present_batch import PresentBatch
from sarameya.group.delivery.read_timestamps import ReadTimestamps
from sarameya.group.delivery.report import Report
from sarameya.group.delivery.time_slices import HandlerTime, TimeSlice
from sarameya.message_batch import MessageBatch
from sarameya.model import Message, TopicPartition
from sarameya.observe import ClaimEnded
from sarameya.protocol.fetch.fetch_cursor import Records
from sarameya.protocol.fetch.undecoded import Decoded, Undecoded
from sarameya.protocol.offset_ledger import OffsetLedger
from sarameya.protocol.records.record_costs import RECORD_BYTES, content_bytes

_COUNTED_BYTES = 4096
"""`concurrently` counts the bytes of unmarked messages in steps of this size: counting each message costs more."""


def _do_nothing() -> None:
    """Default callback of a claim that no stream reads."""


class Claim:
    """A partition assigned to this member for the length of the session."""

    def __init__(
        self,
        consumer: PartitionConsumer,
        config: Config,
        intercept: Intercept | None = None,
        handler_time: HandlerTime | None = None,
        ledger: OffsetLedger | None = None,
    ) -> None:
        self._consumer = consumer
        self._ledger = ledger
        consumer.on_arrival = self._arrived
        consumer.progress = self._progress
        self._config = config
        self._intercept = intercept
        self._initial_offset = consumer.cursor.position
        # The position before the first message of the current batch is taken.
        self._batch_position = consumer.cursor.position
        # Start of the next batch's offset range: the end of the last batch that had messages. Offsets without messages
        # after that batch belong to the next range.
        self._range_start = consumer.cursor.position
        self._fetched: Records | None = None
        self._undecoded = Undecoded(
            consumer.partition, check_crc=config.check_crcs, limit=config.fetch_max_decompressed_bytes
        )
        self._present = PresentBatch()
        self._decoded_bytes = 0
        self._kept = 0
        # Shared with the stream's other claims if a stream reads this claim.
        self._handler_time = handler_time or HandlerTime()
        self._slice = TimeSlice(self._handler_time)
        self._ended = False
        self._stop = trio.Event()
        self._taken_at: float | None = None
        self.waits_since = trio.current_time()
        """Time since which the handler waits for records, on trio's clock. Valid while it has none."""
        # The total time that the handler has worked on this claim.
        self._work = Stopwatch()
        self.records_total = self.bytes_total = 0
        """Messages decoded for the handler, and bytes of record batches as fetched."""
        self.timestamps = ReadTimestamps()
        """Timestamps of the records that the handler received."""
        self.report = Report()
        """The handler's report of its activity and its landed offset, for `ConsumerGroup.status`."""
        self._arrival = trio.Event()
        self._concurrent: ConcurrentMessages | None = None
        # A stream waits for several claims at once.
        self._on_arrival: Callable[[], None] = _do_nothing

    @property
    def topic(self) -> str:
        """The topic's name."""
        return self._consumer.partition.topic

    @property
    def partition(self) -> int:
        """The partition's number in its topic."""
        return self._consumer.partition.partition

    @property
    def topic_partition(self) -> TopicPartition:
        """Topic and partition as one value, as `Session` and `ConsumerGroup` take it."""
        return self._consumer.partition

    @property
    def topic_id(self) -> str:
        """Id of the topic that is read, as 32 hex digits.

        Empty if brokers have no topic ids (before KIP-516), or until metadata has the topic. If the topic is deleted
        and created again, the claim fails.
        """
        found = self._consumer.cursor.topic_id
        return "" if found is None else found.hex

    @property
    def initial_offset(self) -> int:
        """The start offset of the claim."""
        return self._initial_offset

    @property
    def position(self) -> int:
        """Offset of the next message for the handler.

        At the end of the log it is the offset of the next record to be written.
        """
        position = self._present.position()
        return self._batch_position if position is None else position

    @property
    def taken_at(self) -> float | None:
        """Time at which the handler received the records of `held_offsets`, on trio's clock; None if it has none."""
        oldest = self.oldest_in_flight
        return oldest.since if oldest is not None else self._taken_at

    @property
    def oldest_in_flight(self) -> InFlight | None:
        """The first unfinished message of a claim that is read by `concurrently`; None if there is none."""
        return None if self._concurrent is None else self._concurrent._oldest

    @property
    def is_at_limit(self) -> bool:
        """True if `concurrently` returns no more messages before one of those that it has returned is marked."""
        return self._concurrent is not None and self._concurrent._is_full()

    @property
    def held_offsets(self) -> tuple[int, int]:
        """First and last offset of the message or batch that the handler received last, and of unfinished messages."""
        if (oldest := self.oldest_in_flight) is not None:
            return oldest.offset, oldest.offset
        return self._present.last_taken or (self.position - 1, self.position - 1)

    @property
    def from_offset(self) -> int:
        """The `MessageBatch.from_offset` of the next batch: the start of its offset range.

        It equals the `next_offset` of the last batch, and there is no message between it and `position`. If it differs
        from that `next_offset`, the position was reset, and records are missing.
        """
        return self._present.from_offset(self._range_start)

    @property
    def high_water_mark(self) -> int:
        """The high watermark as of the last fetch; -1 before the first fetch.

        While the partition is paused or backpressured, it is looked up about every ten seconds instead.
        """
        return self._consumer.high_water_mark

    @property
    def last_stable_offset(self) -> int:
        """The last stable offset, updated like `high_water_mark`; -1 if it is unknown."""
        return self._consumer.last_stable_offset

    @property
    def is_backpressured(self) -> bool:
        """True if fetching stopped because the handler took nothing for `Config.max_processing_time`."""
        return self._consumer.is_backpressured

    @property
    def is_paused(self) -> bool:
        """True while `ConsumerGroup.pause` or `pause_all` pauses this partition."""
        return self._consumer.is_paused

    @property
    def lag(self) -> int:
        """Offsets between the position and the log end (`high_water_mark`); -1 before the first fetch.

        Under read_committed the log ends at its last stable offset.
        """
        return self.lag_of(self.position)

    def lag_of(self, offset: int) -> int:
        """Return the number of offsets between `offset` and the log end, as `lag` does; -1 if either is unknown."""
        committed_only = self._config.isolation_level == "read_committed" and self.last_stable_offset >= 0
        end = self.last_stable_offset if committed_only else self.high_water_mark
        return max(end - offset, 0) if end >= 0 and offset >= 0 else -1

    @property
    def has_ended(self) -> bool:
        """True once the claim has to stop. For handlers that also wait for something else."""
        return self._ended

    async def wait_ended(self) -> None:
        """Wait until the claim has to stop."""
        await self._stop.wait()

    def __aiter__(self) -> ClaimMessages:
        self._check_not_concurrent()
        return ClaimMessages(self)

    def batches(self) -> ClaimBatches:
        """Return an iterator of `MessageBatch`es.

        Each is one record batch, or several small record batches joined into thousands of messages.

        Raises:
            RuntimeError: The claim is read by `concurrently`.
        """
        self._check_not_concurrent()
        return ClaimBatches(self)

    def concurrently(self, limit: int) -> ConcurrentMessages:
        """Return an iterator of messages that may be processed at the same time, and finish in any order.

        Example::

            async with trio.open_nursery() as nursery:
                async for message in claim.concurrently(50):
                    nursery.start_soon(self.process, session, message)

        Each message is marked with `Session.mark_message` once it is processed; that marks no message before it. The
        committed offset is that of the first message that is not marked. Messages that are finished beyond it are kept
        in the commit's metadata, so that the next owner does not repeat them. A message that is never marked holds the
        committed offset back, and counts towards `limit`, until the claim stops.

        The iterator waits while `limit` messages are not marked. It also waits while the metadata could become too long
        for the broker, with about 700 messages that are far apart, and while the messages need more bytes than the
        claim may hold (`has_room`).

        The iterator ends when the claim stops. Messages that are being processed then may be marked for the rest of
        `Config.claim_grace`.

        Args:
            limit: Maximum number of messages that are not marked; at least 1.

        Several tasks may share the iterator. A message that was taken from the claim before, and is not marked, counts
        as processed.

        Raises:
            ValueError: `limit` is no whole number of at least 1.
            RuntimeError: The claim is read concurrently already, or no offsets are committed (a `Consumer` without a
                group id).
        """
        self._check_not_concurrent()
        if type(limit) is not int or limit < 1:
            raise ValueError(f"limit = {limit!r}: must be a whole number of at least 1")
        if self._ledger is None:
            raise RuntimeError("concurrently() needs a group id: messages are marked, and their offsets committed")
        self._concurrent = ConcurrentMessages(self, self._ledger, limit)
        return self._concurrent

    def _check_not_concurrent(self) -> None:
        if self._concurrent is not None:
            raise RuntimeError(f"the claim of {self.topic_partition} is read by concurrently() already")

    def hold(self, size: int) -> None:
        """Count bytes that the handler keeps of this claim towards `Config.fetch_buffer_bytes`, until `release`.

        For a handler that collects messages. The more it holds, the less of its partition is fetched, and finally
        nothing; see `has_room`. Bytes still held when the claim stops are released automatically.

        Args:
            size: Number of bytes to add.

        Raises:
            ValueError: `size` is negative.
        """
        if size < 0:
            raise ValueError(f"{size} bytes: a size is at least 0")
        self._kept += size
        self._consumer.share.keep(size)
        self._consumer.on_change()

    @property
    def has_room(self) -> bool:
        """True if fetching continues although the handler keeps the bytes that it holds (`hold`).

        For a handler that collects messages: check it after each `hold`. If it is False, process the held messages
        instead of waiting for more: more may not arrive before another handler releases bytes. If all handlers follow
        this rule, none ever waits for another handler's bytes once the buffered messages are taken. The value also
        changes when other handlers hold bytes, or when partitions are assigned, so check it again right before acting
        on it. It is True while nothing is held.

        Each partition may hold an even share of half of `Config.fetch_buffer_bytes`. All partitions share one eighth
        more, first come, first served. Only held bytes count. Bytes that are buffered or on their way do not count: the
        handler can take buffered messages without any room. Otherwise it would process half a fetch because the other
        half has already arrived. Pauses have no influence.
        """
        return self._consumer.share.may_keep_more

    def release(self, size: int) -> None:
        """Stop counting bytes that were passed to `hold`.

        Raises:
            ValueError: `size` is negative, or larger than the number of bytes held.
        """
        if not 0 <= size <= self._kept:
            raise ValueError(f"{size} bytes: {self.topic_partition} holds {self._kept}")
        self._kept -= size
        self._consumer.share.keep_less(size)
        self._consumer.on_change()

    def handler_seconds_until(self, now: float) -> float:
        """Return the seconds that the handler has worked on this claim: from receiving records to requesting more.

        Args:
            now: Present time on trio's clock.
        """
        return self._work.seconds_until(now)

    def _end_event(self) -> ClaimEnded:
        """Return the claim's last event. Called once its handler processes no message of it any more."""
        now, consumer = trio.current_time(), self._consumer
        consumer.end_backpressure()
        return ClaimEnded(
            self.topic_partition,
            self.position,
            self.records_total,
            self.bytes_total,
            self.handler_seconds_until(now),
            consumer.backpressure_seconds_until(now),
        )

    async def _advance(self, by_columns: bool = False) -> bool:
        """Make a batch with untaken messages current. Waits for records, and for a time slice.

        Args:
            by_columns: The caller takes the whole batch at once.

        Returns:
            False once the claim has stopped.
        """
        time_slice = self._slice
        time_slice.left -= self._present.count_taken()
        time_slice.release_messages()
        # Fetching, decoding and the slices of other tasks are not the handler's work.
        self._work.end(now := trio.current_time())
        may_take = not time_slice.is_over(now)
        while not self._ended:
            if not may_take:
                self._note_waiting()
                may_take = await time_slice.wait()
            elif self._advance_nowait(by_columns):
                time_slice.hold_messages()
                return True
            else:
                if self._arrival.is_set():  # several tasks may wait here
                    self._arrival = trio.Event()
                await self._arrival.wait()
                may_take = time_slice.start_at_once(trio.current_time())
        return False

    def _advance_nowait(self, by_columns: bool = False) -> bool:
        """Make a buffered batch with untaken messages current. Return False if there is none.

        Args:
            by_columns: The caller takes the whole batch at once.

        Raises:
            SarameyaError: Fetching or decoding failed. Every later call raises it again.
        """
        present, undecoded = self._present, self._undecoded
        while not (self._ended or self.is_paused):
            if not present.is_taken:
                if not by_columns:
                    present.refill(self._slice.left)
                self._taken_at = now = trio.current_time()
                self._work.begin(now)
                return True
            self._drop_taken()
            if undecoded:
                read = undecoded.next_columns if by_columns else undecoded.next_messages
                self._make_current(read(self._batch_position))
                continue
            self._fetched = records = self._consumer.receive_nowait()
            if records is None:
                self._continue_at(self._consumer.cursor.position)
                break
            self._continue_at(records.position)
            undecoded.add(records)
        self._note_waiting()
        return False

    def _note_waiting(self) -> None:
        """Record that the handler waits for records of this claim."""
        if self._taken_at is not None:
            self._taken_at, self.waits_since = None, trio.current_time()

    def _continue_at(self, position: int) -> None:
        """Set the position while no batch is current: to the end of the last fetch, or to a reset position."""
        if position != self._batch_position:
            self._batch_position = self._range_start = position

    def _drop_taken(self) -> None:
        """Drop the current batch if all of its messages are taken, and release its bytes."""
        present = self._present
        if present.is_taken:
            if not present.is_empty:
                self._batch_position = self.position
                present.clear()
            self._release_decoded()
            if self._fetched is not None and not self._undecoded:
                fetched, self._fetched = self._fetched, None
                self._consumer.taken(fetched)

    def _release_decoded(self) -> None:
        if self._decoded_bytes:
            self._consumer.share.release(self._decoded_bytes)
            self._decoded_bytes = 0

    def _progress(self) -> int:
        return self.position

    def _arrived(self) -> None:
        self._arrival.set()
        self._on_arrival()

    def _make_current(self, decoded: Decoded) -> None:
        """Make decoded messages the current batch."""
        messages, raws, next_offset, undecoded_bytes = decoded
        size = sum([raw.size_bytes for raw in raws])
        if messages:
            epoch = messages[-1].leader_epoch
            batch = MessageBatch(*self.topic_partition, messages, next_offset, epoch, size, self._range_start)
            if self._intercept is not None:
                try:
                    batch = self._intercept(batch)
                except InterceptorError:
                    self._undecoded.put_back(raws)
                    raise
            self.timestamps.add(messages[0].offset, next_offset, messages[0].timestamp)
            self._present.start(batch)
            self._range_start = next_offset
            self._decoded_bytes = len(messages) * RECORD_BYTES + undecoded_bytes
            self._decoded_bytes += size if raws and not raws[-1].is_compressed else content_bytes(batch.messages)
            self._consumer.share.hold(self._decoded_bytes)
            self.records_total += len(messages)
        else:
            self._batch_position = next_offset
        self.bytes_total += size

    def _take_rest(self) -> MessageBatch:
        """Take all remaining messages of the current batch."""
        rest = self._present.take_rest()
        assert rest is not None, "no batch is current"
        self._slice.left -= self._present.count_taken()
        return rest

    def _set_paused(self, paused: bool) -> None:
        """Pause or resume the claim. The iterators of a paused claim return nothing from their next step on."""
        if paused == self.is_paused:
            return
        if paused:
            with self._present.frozen():
                self._batch_position = self.position
                self._present.set_aside()
            self._consumer.pause()
        else:
            self._present.restore()
            self._consumer.resume()

    def _end(self) -> None:
        """Stop the claim: its iterators end at their next step, and buffered messages are dropped."""
        with self._present.frozen():
            self._batch_position, self._range_start = self.position, self.from_offset
            self._ended = True
            self._present.drop()
        self._stop.set()
        self._undecoded.clear()
        self._fetched = None
        self._slice.interrupt()
        if self._concurrent is not None:
            self._concurrent._stop_waiting()
        self._consumer.end()


class ClaimMessages:
    """Messages of a claim, in order.

    While messages are buffered, the handler has a time slice. Other tasks run after 1,000 messages, or as soon as the
    handler requests a message when 10 ms of the slice have passed.
    """

    __slots__ = ("_claim", "_present", "_slice")

    def __init__(self, claim: Claim) -> None:
        self._claim = claim
        self._present = claim._present
        self._slice = claim._slice

    def __aiter__(self) -> ClaimMessages:
        return self

    async def __anext__(self) -> Message:
        if perf_counter() < self._slice.ends:
            for message in self._present.left:  # the fastest way to take one message
                return message
        if not await self._claim._advance():
            raise StopAsyncIteration
        return next(self._present.left)


@attrs.define(slots=True, eq=False)
class InFlight:
    """A message that was handed out by `Claim.concurrently`, and is not marked.

    Attributes:
        offset: Its offset.
        key: Its key.
        since: Time at which it was handed out, on trio's clock.
    """

    offset: int
    key: bytes | None
    since: float


class ConcurrentMessages:
    """Messages of a claim that are marked one by one. Created by `Claim.concurrently`.

    `anext` is cancel-safe: a cancelled call takes nothing, and the next call continues.
    """

    def __init__(self, claim: Claim, ledger: OffsetLedger, limit: int) -> None:
        self._claim = claim
        self._limit = limit
        call_soon = partial(_call_soon, get_ident(), trio.lowlevel.current_trio_token())
        self._tracker = ledger.track(claim.topic_partition, claim.topic_id, claim.position, self._on_gone, call_soon)
        # Key, size, and time of handing out of each message that is not marked, by offset.
        self._in_flight: dict[int, tuple[bytes | None, int, float]] = {}
        # Bytes of these messages that the claim does not hold, or holds too much if negative.
        self._uncounted = 0
        self._gone = trio.Event()

    def __aiter__(self) -> ConcurrentMessages:
        return self

    async def __anext__(self) -> Message:
        claim, tracker, in_flight = self._claim, self._tracker, self._in_flight
        while True:
            while self._is_full():
                if claim.has_ended:
                    raise StopAsyncIteration
                if self._gone.is_set():  # several tasks may wait here
                    self._gone = trio.Event()
                await self._gone.wait()
            message = None
            if perf_counter() < claim._slice.ends:
                message = next(claim._present.left, None)
            if message is None:
                if not await claim._advance():
                    raise StopAsyncIteration
                if self._is_full():  # another task has taken a message meanwhile
                    continue
                message = next(claim._present.left)
            if tracker.hand_out(message.offset, message.leader_epoch):
                key, value = message.key, message.value
                size = RECORD_BYTES + (len(key) if key else 0) + (len(value) if value else 0)
                since = claim._taken_at  # less than a time slice ago; a clock reading for each message costs more
                in_flight[message.offset] = key, size, trio.current_time() if since is None else since
                self._uncounted += size
                if self._uncounted >= _COUNTED_BYTES:
                    claim.hold(self._uncounted)
                    self._uncounted = 0
                return message

    def _on_gone(self, offset: int) -> None:
        _, size, _ = self._in_flight.pop(offset)
        self._uncounted -= size
        if self._uncounted <= -_COUNTED_BYTES:
            self._claim.release(-self._uncounted)
            self._uncounted = 0
        if not self._in_flight:
            self._claim._consumer.on_idle()
        self._gone.set()

    def _stop_waiting(self) -> None:
        self._gone.set()

    def _is_full(self) -> bool:
        """Return whether no message is handed out before another one is marked."""
        count = len(self._in_flight)
        return count > 0 and (count >= self._limit or not self._tracker.has_room or not self._claim.has_room)

    @property
    def _oldest(self) -> InFlight | None:
        offset = self._tracker.position
        if (found := self._in_flight.get(offset)) is None:
            return None
        key, _, since = found
        return InFlight(offset, key, since)


def _call_soon(thread: int, token: trio.lowlevel.TrioToken, call: Callable[..., object], *args: object) -> bool:
    """Pass a call to the event loop of this thread. Return False, and do nothing, if the caller runs in this thread.

    A call that a thread of `trio.to_thread` passes is made before the thread's end is noticed.
    """
    if get_ident() == thread:
        return False
    token.run_sync_soon(call, *args)
    return True


class ClaimBatches:
    """Batches of a claim. `anext` is cancel-safe: a cancelled call takes nothing, and the next call continues."""

    __slots__ = ("_claim",)

    def __init__(self, claim: Claim) -> None:
        self._claim = claim

    def __aiter__(self) -> ClaimBatches:
        return self

    async def __anext__(self) -> MessageBatch:
        if not await self._claim._advance(by_columns=True):
            raise StopAsyncIteration
        return self._claim._take_rest()
