"""One claimed partition, as its handler reads it: message by message, or batch by batch.

Decoding happens here, on the claim's own task, so that a corrupt batch fails this claim alone: one record batch at a
time into messages, or a few into the columns of one `MessageBatch`. Both views share one place in the log: whichever is
used next goes on where the other stopped, and cancelling a read loses nothing. A claim that is paused hands out
nothing: what is left of the batch it was in is set aside, so that asking for the next message costs no more for it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Sequence
from typing import TypeVar

import trio

from sarameya.config import Config
from sarameya.consumer.partition_consumer import PartitionConsumer
from sarameya.errors import InterceptorError, RecordError
from sarameya.group.interceptors import Intercept
from sarameya.message_batch import MessageBatch, MessageColumns
from sarameya.model import Message, TopicPartition
from sarameya.protocol.records import RawBatch, decode, decode_columns

_Decoded = TypeVar("_Decoded")

_ENOUGH_MESSAGES = 1000
"""Record batches are joined into one MessageBatch until it has so many: what a batch costs is little then beside what
its messages do."""


def _nobody() -> None:
    """Nobody else waits."""


class Claim:
    """A partition assigned to this member for the length of the session."""

    def __init__(self, consumer: PartitionConsumer, config: Config, intercept: Intercept | None = None) -> None:
        self._consumer = consumer
        consumer.on_arrival = self._arrived
        consumer.progress = self._progress
        self._config = config
        self._intercept = intercept
        self._initial_offset = consumer.cursor.position
        # Behind everything that has been taken, but for the messages taken of the present batch.
        self._behind = consumer.cursor.position
        self._undecoded: deque[RawBatch] = deque()
        self._aborted: frozenset[int] = frozenset()
        self._batch: MessageBatch | None = None
        self._messages: Sequence[Message] = ()
        self._taken = 0
        # While paused: the batch, its messages, and how many of them are taken.
        self._aside: tuple[MessageBatch | None, Sequence[Message], int] = (None, (), 0)
        self._ended = False
        self._arrival = trio.Event()
        # For a stream, which waits for several claims.
        self._on_arrival: Callable[[], None] = _nobody

    @property
    def topic(self) -> str:
        return self._consumer.partition.topic

    @property
    def partition(self) -> int:
        return self._consumer.partition.partition

    @property
    def topic_partition(self) -> TopicPartition:
        return self._consumer.partition

    @property
    def initial_offset(self) -> int:
        """The offset at which the claim began."""
        return self._initial_offset

    @property
    def position(self) -> int:
        """The next offset the handler will be given; where it has read everything, the next one to be written."""
        # Each is read once: a thread that marks may ask while the claim goes on.
        batch, messages, taken = self._batch, self._messages, self._taken
        if batch is None or not taken:
            return self._behind
        if taken >= len(messages):
            return batch.next_offset
        return messages[taken - 1].offset + 1

    @property
    def high_water_mark(self) -> int:
        """The log's end as the last fetch told it, -1 before the first one. Stands still while paused."""
        return self._consumer.cursor.high_water_mark

    @property
    def is_paused(self) -> bool:
        """Whether `ConsumerGroup.pause` or `pause_all` holds this partition back."""
        return self._consumer.is_paused

    @property
    def lag(self) -> int:
        """How many offsets the position is behind the log's end as the last fetch told it, -1 before the first one."""
        return max(self.high_water_mark - self.position, 0) if self.high_water_mark >= 0 else -1

    @property
    def has_ended(self) -> bool:
        """Whether the session asks the claim to finish. For handlers that wait for something else meanwhile."""
        return self._ended

    def __aiter__(self) -> ClaimMessages:
        return ClaimMessages(self)

    def batches(self) -> ClaimBatches:
        """The messages as `MessageBatch`es: a record batch of the log each, or as many as make a thousand messages."""
        return ClaimBatches(self)

    async def _advance(self, by_columns: bool = False) -> bool:
        """Have a batch with messages left to take; False once the session ends. Takes a checkpoint."""
        await trio.lowlevel.checkpoint()
        while not self._ended:
            if self._advance_nowait(by_columns):
                return True
            if self._arrival.is_set():  # several tasks may wait here
                self._arrival = trio.Event()
            await self._arrival.wait()
        return False

    def _advance_nowait(self, by_columns: bool = False) -> bool:
        """Have a batch with messages left to take, out of what has been fetched; False if there is none to be had.

        `by_columns`: whoever asks takes all of it at once. Raises what fetching or decoding failed with, at this and
        every later call.
        """
        while not (self._ended or self.is_paused):
            if self._taken < len(self._messages):
                return True
            self._behind = self.position
            self._batch, self._messages, self._taken = None, (), 0
            if self._undecoded:
                if by_columns:
                    self._decode_columns()
                else:
                    self._decode_next()
                continue
            records = self._consumer.receive_nowait()
            if records is None:
                return False
            # Where the position was reset it is not behind what came before, and may be lower.
            self._behind = records.position
            self._undecoded.extend(records.batches)
            self._aborted = records.aborted
        return False

    def _progress(self) -> int:
        return self.position

    def _arrived(self) -> None:
        self._arrival.set()
        self._on_arrival()

    def _decode_next(self) -> None:
        """The next record batch's messages."""
        # Taken out only once it is decoded: a batch that cannot be decoded stays the next one.
        raw = self._undecoded[0]
        messages = self._decoded(decode, raw) if self._is_shown(raw) else []
        self._undecoded.popleft()
        if messages and messages[0].offset < self._behind:
            # The broker begins at the batch that holds the position, not at the position itself.
            messages = [message for message in messages if message.offset >= self._behind]
        self._have(messages, [raw])

    def _decode_columns(self) -> None:
        """The next record batch's columns, and those of the ones behind it until there are enough messages."""
        parts: list[MessageColumns] = []
        raws: list[RawBatch] = []
        count = 0
        while self._undecoded and count < _ENOUGH_MESSAGES:
            raw = self._undecoded[0]
            if raws and (raw.timestamp_type, raw.leader_epoch) != (raws[0].timestamp_type, raws[0].leader_epoch):
                break
            if self._is_shown(raw):
                try:
                    columns = self._decoded(decode_columns, raw)
                except RecordError:
                    if not raws:
                        raise
                    break  # what stands before it is good, and it stays the next one
                if columns and columns.offsets[0] < self._behind:
                    columns = columns[bisect_left(columns.offsets, self._behind) :]
                if columns:
                    parts.append(columns)
                    count += len(columns)
            raws.append(self._undecoded.popleft())
        self._have(MessageColumns.joined(parts) if parts else (), raws)

    def _decoded(self, read: Callable[..., _Decoded], raw: RawBatch) -> _Decoded:
        config = self._config
        limit = config.fetch_max_decompressed_bytes
        return read(raw, self.topic_partition, check_crc=config.check_crcs, limit=limit)

    def _is_shown(self, raw: RawBatch) -> bool:
        return not raw.is_control and raw.base_offset not in self._aborted

    def _have(self, messages: Sequence[Message], raws: Sequence[RawBatch]) -> None:
        """These are next, and are all there is in `raws`."""
        behind, epoch = raws[-1].next_offset, raws[-1].leader_epoch
        if messages:
            size = sum(len(raw.data) for raw in raws)
            batch = MessageBatch(*self.topic_partition, messages, behind, epoch, size)
            if self._intercept is not None:
                try:
                    batch = self._intercept(batch)
                except InterceptorError:
                    self._undecoded.extendleft(reversed(raws))  # they stay the next ones
                    raise
            self._batch, self._messages = batch, batch.messages
        else:
            self._behind = behind

    def _take_rest(self) -> MessageBatch:
        """What is left of the present batch."""
        batch, taken = self._batch, self._taken
        assert batch is not None
        self._taken = len(self._messages)
        if not taken:
            return batch
        rest = batch.messages[taken:]
        return MessageBatch(batch.topic, batch.partition, rest, batch.next_offset, batch.leader_epoch, batch.size_bytes)

    def _set_paused(self, paused: bool) -> None:
        """Hold back everything from the next step of an iterator on, or go on exactly there."""
        if paused == self.is_paused:
            return
        if paused:
            self._behind = self.position
            self._aside = (self._batch, self._messages, self._taken)
            self._batch, self._messages, self._taken = None, (), 0
            self._consumer.pause()
        else:
            self._batch, self._messages, self._taken = self._aside
            self._aside = (None, (), 0)
            self._consumer.resume()

    def _end(self) -> None:
        """The session ends: iterators end at their next step, and what is buffered is dropped."""
        self._behind = self.position
        self._ended = True
        self._batch, self._messages, self._taken = None, (), 0
        self._aside = (None, (), 0)
        self._undecoded.clear()
        self._consumer.end()


class ClaimMessages:
    """A claim's messages, in order. A checkpoint is taken for each record batch, none for a message."""

    __slots__ = ("_claim",)

    def __init__(self, claim: Claim) -> None:
        self._claim = claim

    def __aiter__(self) -> ClaimMessages:
        return self

    async def __anext__(self) -> Message:
        claim = self._claim
        taken = claim._taken
        if taken == len(claim._messages):
            if not await claim._advance():
                raise StopAsyncIteration
            taken = claim._taken
        claim._taken = taken + 1
        return claim._messages[taken]


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
