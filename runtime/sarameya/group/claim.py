"""One claimed partition, as its handler reads it: message by message, or batch by batch.

Decoding happens here, on the claim's own task, one record batch at a time, so that a corrupt batch fails this
claim alone. Both views share one place in the log: whichever is used next goes on where the other stopped, and
cancelling a read loses nothing. A claim that is paused hands out nothing: what is left of the batch it was in is set
aside, so that asking for the next message costs no more for it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

import trio

from sarameya.config import Config
from sarameya.consumer.partition_consumer import PartitionConsumer
from sarameya.message_batch import MessageBatch
from sarameya.model import Message, TopicPartition
from sarameya.protocol.records import RawBatch, decode


def _nobody() -> None:
    """Nobody else waits."""


class Claim:
    """A partition assigned to this member for the length of the session."""

    def __init__(self, consumer: PartitionConsumer, config: Config) -> None:
        self._consumer = consumer
        consumer.on_arrival = self._arrived
        self._config = config
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
        if self._batch is None or not self._taken:
            return self._behind
        if self._taken == len(self._messages):
            return self._batch.next_offset
        return self._messages[self._taken - 1].offset + 1

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
        """The messages as `MessageBatch`es, a record batch of the log each."""
        return ClaimBatches(self)

    async def _advance(self) -> bool:
        """Have a batch with messages left to take; False once the session ends. Takes a checkpoint."""
        await trio.lowlevel.checkpoint()
        while not self._ended:
            if self._advance_nowait():
                return True
            if self._arrival.is_set():  # several tasks may wait here
                self._arrival = trio.Event()
            await self._arrival.wait()
        return False

    def _advance_nowait(self) -> bool:
        """Have a batch with messages left to take, out of what has been fetched; False if there is none to be had.

        Raises what fetching or decoding failed with, at this and every later call.
        """
        while not (self._ended or self.is_paused):
            if self._taken < len(self._messages):
                return True
            self._behind = self.position
            self._batch, self._messages, self._taken = None, (), 0
            if self._undecoded:
                # Taken out only once it is decoded: a batch that cannot be decoded stays the next one.
                self._decode(self._undecoded[0])
                self._undecoded.popleft()
                continue
            records = self._consumer.receive_nowait()
            if records is None:
                return False
            # Where the position was reset it is not behind what came before, and may be lower.
            self._behind = records.position
            self._undecoded.extend(records.batches)
            self._aborted = records.aborted
        return False

    def _arrived(self) -> None:
        self._arrival.set()
        self._on_arrival()

    def _decode(self, raw: RawBatch) -> None:
        config, partition = self._config, self.topic_partition
        messages: list[Message] = []
        if not raw.is_control and raw.base_offset not in self._aborted:
            messages = decode(raw, partition, check_crc=config.check_crcs, limit=config.fetch_max_decompressed_bytes)
        if messages and messages[0].offset < self._behind:
            # The broker begins at the batch that holds the position, not at the position itself.
            messages = [message for message in messages if message.offset >= self._behind]
        if messages:
            self._messages = messages
            self._batch = MessageBatch(*partition, messages, raw.next_offset, raw.leader_epoch, len(raw.data))
        else:
            self._behind = raw.next_offset

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
        if not await self._claim._advance():
            raise StopAsyncIteration
        return self._claim._take_rest()
