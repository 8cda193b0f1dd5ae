"""One claimed partition, as its handler reads it: message by message, or batch by batch.

Decoding happens here, on the claim's own task, one record batch at a time, so that a corrupt batch fails this
claim alone. Both views share one place in the log: whichever is used next goes on where the other stopped, and
cancelling a read loses nothing.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator

import trio

from sarameya.config import Config
from sarameya.consumer.partition_consumer import PartitionConsumer
from sarameya.model import Message, MessageBatch, TopicPartition
from sarameya.protocol.records import RawBatch, decode


class Claim:
    """A partition assigned to this member for the length of the session."""

    def __init__(self, consumer: PartitionConsumer, config: Config) -> None:
        self._consumer = consumer
        self._config = config
        self._initial_offset = consumer.cursor.position
        self._position = consumer.cursor.position
        self._undecoded: deque[RawBatch] = deque()
        self._aborted: frozenset[int] = frozenset()
        self._decoded: MessageBatch | None = None
        self._taken = 0
        self._ended = False

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
        return self._position

    @property
    def high_water_mark(self) -> int:
        """The log's end as the last fetch told it, -1 before the first one."""
        return self._consumer.cursor.high_water_mark

    @property
    def has_ended(self) -> bool:
        """Whether the session asks the claim to finish. For handlers that wait for something else meanwhile."""
        return self._ended

    def __aiter__(self) -> AsyncIterator[Message]:
        return self._messages()

    async def _messages(self) -> AsyncIterator[Message]:
        """The messages, in order. A checkpoint is taken for each record batch, none for a message."""
        while (batch := await self._next_batch()) is not None:
            # The batch is kept until its last message is out: whoever stops in between goes on here later.
            self._decoded = batch
            messages = batch.messages
            for index in range(self._taken, len(messages)):
                if self._ended:
                    return
                message = messages[index]
                self._taken = index + 1
                self._position = message.offset + 1
                yield message
            self._decoded, self._taken = None, 0
            self._position = batch.next_offset

    def batches(self) -> ClaimBatches:
        """The messages as `MessageBatch`es, a record batch of the log each."""
        return ClaimBatches(self)

    async def _take_batch(self) -> MessageBatch | None:
        batch = await self._next_batch()
        if batch is None:
            return None
        taken, self._decoded, self._taken = self._taken, None, 0
        self._position = batch.next_offset
        if not taken:
            return batch
        rest = batch.messages[taken:]
        return MessageBatch(batch.topic, batch.partition, rest, batch.next_offset, batch.leader_epoch, batch.size_bytes)

    async def _next_batch(self) -> MessageBatch | None:
        """The batch to go on with: the one begun, or the next that has messages; None once the session ends."""
        await trio.lowlevel.checkpoint()
        while not self._ended:
            if self._decoded is not None:
                if self._taken < len(self._decoded.messages):
                    return self._decoded
                self._decoded, self._taken = None, 0
            if self._undecoded:
                # Taken out only once it is decoded: a batch that cannot be stays the next one.
                self._decoded = self._decode(self._undecoded[0])
                self._undecoded.popleft()
                continue
            try:
                records = await self._consumer.receive()
            except trio.EndOfChannel:
                return None
            self._undecoded.extend(records.batches)
            self._aborted = records.aborted
        return None

    def _decode(self, raw: RawBatch) -> MessageBatch | None:
        config, partition = self._config, self.topic_partition
        if raw.is_control or raw.base_offset in self._aborted:
            self._position = raw.next_offset
            return None
        messages = decode(raw, partition, check_crc=config.check_crcs, limit=config.fetch_max_decompressed_bytes)
        if messages and messages[0].offset < self._position:
            # The broker begins at the batch that holds the position, not at the position itself.
            messages = [message for message in messages if message.offset >= self._position]
        if not messages:
            self._position = raw.next_offset
            return None
        return MessageBatch(*partition, messages, raw.next_offset, raw.leader_epoch, len(raw.data))

    def _end(self) -> None:
        """The session ends: iterators end at their next step, and what is buffered is dropped."""
        self._ended = True
        self._consumer.end()
        self._undecoded.clear()


class ClaimBatches:
    """A claim's batches. `anext` is cancel-safe: a cancelled call takes nothing, and the next one goes on."""

    def __init__(self, claim: Claim) -> None:
        self._claim = claim

    def __aiter__(self) -> ClaimBatches:
        return self

    async def __anext__(self) -> MessageBatch:
        batch = await self._claim._take_batch()
        if batch is None:
            raise StopAsyncIteration
        return batch
