"""One claimed partition, as its handler reads it: message by message, or batch by batch.

Decoding happens here, on the claim's own task, so that a corrupt batch fails this claim alone: one record batch at a
time into messages, or a few into the columns of one `MessageBatch`. Both views share one place in the log: whichever is
used next goes on where the other stopped, and cancelling a read loses nothing. A claim that is paused hands out
nothing: what is left of the batch it was in is set aside, so that asking for the next message costs no more for it.
Handing out what is at hand takes no checkpoint, but for those between time slices (`time_slices.py`).

Left to others: what record batches become (`protocol/fetch/undecoded.py`), which messages of the present batch are
taken (`present_batch.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter

import trio

from sarameya.config import Config
from sarameya.consumer.partition_consumer import PartitionConsumer
from sarameya.consumer.stopwatch import Stopwatch
from sarameya.errors import InterceptorError
from sarameya.group.interceptors import Intercept
from sarameya.group.present_batch import PresentBatch
from sarameya.group.read_timestamps import ReadTimestamps
from sarameya.group.report import Report
from sarameya.group.time_slices import HandlerTime, TimeSlice
from sarameya.message_batch import MessageBatch
from sarameya.model import Message, TopicPartition
from sarameya.observe import ClaimEnded
from sarameya.protocol.fetch.fetch_cursor import Records
from sarameya.protocol.fetch.undecoded import Decoded, Undecoded
from sarameya.protocol.records.record_costs import RECORD_BYTES, content_bytes


def _nobody() -> None:
    """Nobody else waits."""


class Claim:
    """A partition assigned to this member for the length of the session."""

    def __init__(
        self,
        consumer: PartitionConsumer,
        config: Config,
        intercept: Intercept | None = None,
        handler_time: HandlerTime | None = None,
    ) -> None:
        self._consumer = consumer
        consumer.on_arrival = self._arrived
        consumer.progress = self._progress
        self._config = config
        self._intercept = intercept
        self._initial_offset = consumer.cursor.position
        # Behind everything that has been taken, but for the messages taken of the present batch.
        self._behind = consumer.cursor.position
        # Behind the last batch that had messages: what is hidden behind it belongs to the next one's range.
        self._reached = consumer.cursor.position
        self._fetched: Records | None = None
        self._undecoded = Undecoded(
            consumer.partition, check_crc=config.check_crcs, limit=config.fetch_max_decompressed_bytes
        )
        self._present = PresentBatch()
        self._decoded_bytes = 0
        self._kept = 0
        # The stream's, where one reads this claim.
        self._slice = TimeSlice(handler_time or HandlerTime())
        self._ended = False
        self.taken_at: float | None = None
        """When the handler was last given something, on trio's clock, if it has not come back for more since."""
        self.waits_since = trio.current_time()
        """Otherwise, since when it waits."""
        # How long it was at work on it, until it asked for more.
        self._work = Stopwatch()
        self.records_total = self.bytes_total = 0
        """How many messages were laid ready for it, and how many bytes of record batches, as they travel."""
        self.timestamps = ReadTimestamps()
        """When the records that it was given were written."""
        self.report = Report()
        """What the handler says of its work on it, for `ConsumerGroup.status`: that it lands, and up to where."""
        self._arrival = trio.Event()
        # For a stream, which waits for several claims.
        self._on_arrival: Callable[[], None] = _nobody

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
        """Both, as one value: what `Session` and `ConsumerGroup` take."""
        return self._consumer.partition

    @property
    def topic_id(self) -> str:
        """The id of the topic that is read, as 32 hex digits; empty where brokers have none (before KIP-516), or as
        long as no metadata has told of it. A topic that is made again under the name fails the claim."""
        found = self._consumer.cursor.topic_id
        return "" if found is None else found.hex

    @property
    def initial_offset(self) -> int:
        """The offset at which the claim began."""
        return self._initial_offset

    @property
    def position(self) -> int:
        """The next offset the handler will be given; where it has read everything, the next one to be written."""
        return self._present.position(self._behind)

    @property
    def held_offsets(self) -> tuple[int, int]:
        """The first and the last offset of what the handler was given last: a message, or a batch."""
        return self._present.last_given or (self.position - 1, self.position - 1)

    @property
    def from_offset(self) -> int:
        """Where the range of what comes next begins: the `MessageBatch.from_offset` of the next batch. So far it is the
        `next_offset` of what came last, and what lies between it and `position` holds nothing to hand out; where it is
        not, the position was moved, and records are missing."""
        return self._present.from_offset(self._reached)

    @property
    def high_water_mark(self) -> int:
        """The log's end as the last fetch told it, -1 before the first one. While nothing is fetched, since it is
        paused or its handler takes nothing, it is looked up, about each ten seconds."""
        return self._consumer.high_water_mark

    @property
    def last_stable_offset(self) -> int:
        """Where the first open transaction began, told as `high_water_mark` is, -1 where it is not known."""
        return self._consumer.last_stable_offset

    @property
    def is_backpressured(self) -> bool:
        """Whether the handler has taken nothing for so long (`Config.max_processing_time`) that no more is fetched."""
        return self._consumer.is_backpressured

    @property
    def is_paused(self) -> bool:
        """Whether `ConsumerGroup.pause` or `pause_all` holds this partition back."""
        return self._consumer.is_paused

    @property
    def lag(self) -> int:
        """How many offsets the position is behind the log's end (`high_water_mark`), -1 before the first fetch.

        Under read_committed the log ends at its last stable offset.
        """
        return self.lag_of(self.position)

    def lag_of(self, offset: int) -> int:
        """Return how many offsets `offset` is behind the log's end, as `lag`; -1 where either is not known."""
        committed_only = self._config.isolation_level == "read_committed" and self.last_stable_offset >= 0
        end = self.last_stable_offset if committed_only else self.high_water_mark
        return max(end - offset, 0) if end >= 0 and offset >= 0 else -1

    @property
    def has_ended(self) -> bool:
        """Whether the session asks the claim to finish. For handlers that wait for something else meanwhile."""
        return self._ended

    def __aiter__(self) -> ClaimMessages:
        return ClaimMessages(self)

    def batches(self) -> ClaimBatches:
        """The messages as `MessageBatch`es: of one record batch of the log, or of as many as make thousands of them."""
        return ClaimBatches(self)

    def hold(self, size: int) -> None:
        """Count `size` bytes that the handler keeps of this claim towards `Config.fetch_buffer_bytes`, until `release`.

        For a handler that collects what it takes: while it holds much, less of its partition is fetched, and in the end
        nothing: `has_room` tells. What is held when the claim ends is given back by itself. Raises ValueError for less
        than nothing.
        """
        if size < 0:
            raise ValueError(f"{size} bytes: a size is at least 0")
        self._kept += size
        self._consumer.share.keep(size)
        self._consumer.on_change()

    @property
    def has_room(self) -> bool:
        """Whether more of this partition comes while the handler keeps what it does (`hold`).

        For a handler that collects: ask after each `hold`, and when this is False, deal with what is held rather than
        wait for more, which may not come before others release something. If all claims' handlers do so, none ever
        waits for another one's bytes, once what was fetched before is taken. It may also become False by what others
        hold, or when partitions come: who remembers it should ask again before it acts on it. True where nothing is
        held.

        Together, handlers may keep each partition's even share of half of `Config.fetch_buffer_bytes`, and beyond that
        an eighth of it, whoever takes it. What counts is what handlers keep. What was fetched and not
        taken yet does not count: it is theirs to take without any room, so that nobody lands half a fetch only since
        the other half is there already; nor does what is on its way. Pauses do not show in this.
        """
        return self._consumer.share.may_keep_more

    def release(self, size: int) -> None:
        """Count these bytes, which `hold` was told of, no longer. Raises ValueError for more than that."""
        if not 0 <= size <= self._kept:
            raise ValueError(f"{size} bytes: {self.topic_partition} holds {self._kept}")
        self._kept -= size
        self._consumer.share.keep_less(size)
        self._consumer.on_change()

    def handler_seconds_until(self, now: float) -> float:
        """How long its handler has been at work on it: from being given something to asking for more."""
        return self._work.seconds_until(now)

    def _farewell(self) -> ClaimEnded:
        """What observers are told at its end, when nothing of it is in a handler's hands any more."""
        now, consumer = trio.current_time(), self._consumer
        consumer.goes_on()
        return ClaimEnded(
            self.topic_partition,
            self.position,
            self.records_total,
            self.bytes_total,
            self.handler_seconds_until(now),
            consumer.backpressure_seconds_until(now),
        )

    async def _advance(self, by_columns: bool = False) -> bool:
        """Have a batch with messages left to take; False once the session ends. Waits for a time slice if need be."""
        time_slice = self._slice
        time_slice.left -= self._present.count_taken()
        time_slice.take_back()
        self._work.end(now := trio.current_time())  # fetching, decoding and others' slices are no work of the handler
        may_take = not time_slice.is_over(now)
        while not self._ended:
            if not may_take:
                self._waits()
                may_take = await time_slice.wait()
            elif self._advance_nowait(by_columns):
                time_slice.give()
                return True
            else:
                if self._arrival.is_set():  # several tasks may wait here
                    self._arrival = trio.Event()
                await self._arrival.wait()
                may_take = time_slice.begin_at_once(trio.current_time())
        return False

    def _advance_nowait(self, by_columns: bool = False) -> bool:
        """Have a batch with messages left to take, out of what has been fetched; False if there is none to be had.

        `by_columns`: whoever asks takes all of it at once. Raises what fetching or decoding failed with, at this and
        every later call.
        """
        present = self._present
        while not (self._ended or self.is_paused):
            if not present.is_taken:
                if not by_columns:
                    present.lay_ready(self._slice.left)
                self.taken_at = now = trio.current_time()
                self._work.begin(now)
                return True
            self._put_away()
            if self._undecoded:
                self._have(
                    self._undecoded.next_columns(self._behind)
                    if by_columns
                    else self._undecoded.next_messages(self._behind)
                )
                continue
            self._fetched = records = self._consumer.receive_nowait()
            if records is None:
                self._stand_at(self._consumer.cursor.position)
                self._waits()
                return False
            self._stand_at(records.position)
            self._undecoded.add(records)
        self._waits()
        return False

    def _waits(self) -> None:
        """The handler has nothing of this any more."""
        if self.taken_at is not None:
            self.taken_at, self.waits_since = None, trio.current_time()

    def _stand_at(self, position: int) -> None:
        """Nothing is at hand, and reading goes on here: behind all that came, or where a position was moved to that its
        log did not have, which may be lower."""
        if position != self._behind:
            self._behind = self._reached = position

    def _put_away(self) -> None:
        """What is at hand has been dealt with, if all of it is taken."""
        if self._present.is_taken:
            self._behind = self.position
            self._present.clear()
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

    def _have(self, decoded: Decoded) -> None:
        """These messages are next."""
        messages, raws, behind, beside = decoded
        size = sum([raw.size_bytes for raw in raws])
        if messages:
            epoch = messages[-1].leader_epoch
            batch = MessageBatch(*self.topic_partition, messages, behind, epoch, size, self._reached)
            if self._intercept is not None:
                try:
                    batch = self._intercept(batch)
                except InterceptorError:
                    self._undecoded.put_back(raws)
                    raise
            self.timestamps.add(messages[0].offset, behind, messages[0].timestamp)
            self._present.begin(batch)
            self._reached = behind
            self._decoded_bytes = len(messages) * RECORD_BYTES + beside
            self._decoded_bytes += size if raws and not raws[-1].is_compressed else content_bytes(batch.messages)
            self._consumer.share.hold(self._decoded_bytes)
            self.records_total += len(messages)
        else:
            self._behind = behind
        self.bytes_total += size

    def _take_rest(self) -> MessageBatch:
        """What is left of the present batch."""
        rest = self._present.take_rest()
        self._slice.left -= self._present.count_taken()
        return rest

    def _set_paused(self, paused: bool) -> None:
        """Hold back everything from the next step of an iterator on, or go on exactly there."""
        if paused == self.is_paused:
            return
        if paused:
            self._behind = self.position
            self._present.set_aside()
            self._consumer.pause()
        else:
            self._present.take_up()
            self._consumer.resume()

    def _end(self) -> None:
        """The session ends: iterators end at their next step, and what is buffered is dropped."""
        self._behind, self._reached = self.position, self.from_offset
        self._ended = True
        self._present.drop()
        self._undecoded.clear()
        self._fetched = None
        self._slice.interrupt()
        self._consumer.end()


class ClaimMessages:
    """Messages of a claim, in order.

    While there are any at hand, the handler has a time slice: after 1,000 messages, or before the first message that
    begins 10 ms after the slice did, other tasks run.
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
            for message in self._present.left:  # of all ways to take one the fastest
                return message
        if not await self._claim._advance():
            raise StopAsyncIteration
        return next(self._present.left)


class ClaimBatches:
    """A claim's batches. `anext` is cancel-safe: a cancelled call takes nothing, and the next one goes on."""

    __slots__ = ("_claim",)

    def __init__(self, claim: Claim) -> None:
        self._claim = claim

    def __aiter__(self) -> ClaimBatches:
        return self

    async def __anext__(self) -> MessageBatch:
        if not await self._claim._advance(by_columns=True):
            raise StopAsyncIteration
        return self._claim._take_rest()
