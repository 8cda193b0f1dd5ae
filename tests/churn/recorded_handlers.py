"""Handlers of many kinds whose calls are recorded.

Each random choice in a call depends on the seed, the name of the call, and the number of earlier choices of this name.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

import trio

from sarameya import (
    Claim,
    CommittedOffset,
    ConsumerGroupHandler,
    Message,
    MessageBatch,
    Session,
    Stream,
    StreamHandler,
    TopicPartition,
)

Log = Callable[[str, str], None]
"""Called with a channel and a line. The order of lines counts within a channel."""

TEMPERS = (
    "calm",
    "calm",
    "slow setup",
    "slow assigned",
    "slow revoked",
    "slow cleanup",
    "slow start",
    "slow drain",
    "failing",
    "ending",
    "committing",
    "stubborn",
    "mixed",
)
"""The kinds of handlers. A kind that is listed twice is twice as frequent."""


class HandlerError(Exception):
    """Raised by a handler on purpose."""


class Draws:
    """Random choices that depend only on the seed, a name, and the number of earlier choices for this name."""

    def __init__(self, seed: str) -> None:
        self._seed = seed
        self._counts: Counter[str] = Counter()

    def of(self, name: str) -> random.Random:
        """Return the source for the next choice of this name."""
        self._counts[name] += 1
        return random.Random(f"{self._seed}/{name}/{self._counts[name]}")


class Behaviour:
    """The behaviour of a recorded handler in its calls."""

    def __init__(self, temper: str, draws: Draws, log: Log) -> None:
        self.temper = temper
        self.draws = draws
        self.log = log

    @asynccontextmanager
    async def call(self, name: str, channel: str, what: str) -> AsyncIterator[None]:
        """Record the start and the end of a call.

        Args:
            name: the name of the call.
            channel: the channel of its lines.
            what: the arguments of the call, as text.
        """
        self.log(channel, f"{name} {what}".rstrip())
        try:
            yield
        except trio.Cancelled:
            self.log(channel, f"{name} cancelled")
            raise
        except Exception as error:
            self.log(channel, f"{name} raises {error!r}")
            raise
        self.log(channel, f"{name} returns")

    async def take_time(self, name: str, subject: str = "") -> None:
        """Wait as long as this handler does in the call `name`, or raise HandlerError, depending on its temper.

        Args:
            name: the name of the call.
            subject: the partition or channel of the call, if it has its own random choices.
        """
        rng, temper = self.draws.of(f"{name} {subject}"), self.temper
        draw = rng.random()
        if temper == f"slow {name}" or (temper == "mixed" and draw < 0.15):
            await trio.sleep(rng.choice([rng.uniform(0.2, 1.4), rng.uniform(1.6, 5.0), rng.uniform(5, 20)]))
        elif temper in ("stubborn", "mixed") and draw < 0.25 and name != "start":
            with trio.CancelScope(shield=True):
                await trio.sleep(rng.choice([rng.uniform(0.1, 1.4), rng.uniform(1.6, 6.0), rng.uniform(7, 14)]))
        elif temper in ("failing", "mixed") and draw > 0.9:
            await trio.sleep(rng.uniform(0.001, 0.02))
            raise HandlerError(f"{name} fails")
        else:
            await trio.sleep(rng.uniform(0.001, 0.02))

    async def handle(self, session: Session, partition: TopicPartition, next_offset: int) -> bool:
        """Process the messages before `next_offset`, and mark them. Return whether to read on."""
        rng, temper = self.draws.of(f"message {partition}"), self.temper
        await trio.sleep(rng.uniform(0.001, 0.4))
        draw = rng.random()
        if temper == "failing" and draw < 0.03:
            raise HandlerError(f"message before {partition}@{next_offset}")
        session.mark_offset(*partition, next_offset, "x" if rng.random() < 0.1 else "")
        if temper == "ending" and draw < 0.05:
            session.end("the handler has had enough")
        if temper == "ending" and draw > 0.97:
            return False
        if temper == "committing" and draw < 0.2:
            await session.commit()
        return True


class _RecordedHooks(ConsumerGroupHandler):
    """The recorded calls of a handler, except for the calls that read messages."""

    def __init__(self, behaviour: Behaviour, by_batch: bool) -> None:
        self._behaviour = behaviour
        self._by_batch = by_batch

    async def setup(self, session: Session) -> None:
        await self._call("setup", f"generation {session.generation} {dict(session.claims)}")

    async def partitions_assigned(self, session: Session, partitions: Sequence[TopicPartition]) -> None:
        await self._call("assigned", f"{_text(partitions)} {dict(session.claims)}")

    async def partitions_revoked(self, session: Session, partitions: Sequence[TopicPartition]) -> None:
        await self._call("revoked", f"{_text(partitions)} lost {session.is_lost}")

    async def partitions_lost(self, session: Session, partitions: Sequence[TopicPartition]) -> None:
        await self._call("revoked", f"{_text(partitions)} by partitions_lost, lost {session.is_lost}")

    async def cleanup(self, session: Session) -> None:
        await self._call("cleanup", f"generation {session.generation} lost {session.is_lost}")

    async def start_offset(
        self, partition: TopicPartition, committed: CommittedOffset | None
    ) -> int | CommittedOffset | None:
        known = None if committed is None else committed.offset
        async with self._behaviour.call("start", f"start {partition}", str(known)):
            await self._behaviour.take_time("start", str(partition))
            rng = self._behaviour.draws.of(f"chosen start {partition}")
            return None if known is None or rng.random() < 0.8 else max(known - rng.randrange(3), 0)

    async def _call(self, name: str, what: str) -> None:
        async with self._behaviour.call(name, "calls", what):
            await self._behaviour.take_time(name)


class RecordedClaims(_RecordedHooks):
    """Reads claims, message by message or batch by batch."""

    async def consume_claim(self, session: Session, claim: Claim) -> None:
        behaviour, partition = self._behaviour, claim.topic_partition
        channel = f"claim {partition}"
        async with behaviour.call("claim", channel, f"from {claim.initial_offset}"):
            async for item in claim.batches() if self._by_batch else claim:
                behaviour.log(channel, _offsets(item))
                if not await behaviour.handle(session, partition, _next_offset(item)):
                    return
            await behaviour.take_time("drain", channel)


class RecordedStreams(_RecordedHooks, StreamHandler):
    """Reads several claims in a task, message by message or batch by batch."""

    def __init__(self, behaviour: Behaviour, by_batch: bool, streams: int) -> None:
        super().__init__(behaviour, by_batch)
        self.streams = streams

    async def consume_stream(self, session: Session, stream: Stream) -> None:
        behaviour, channel = self._behaviour, f"stream {stream.index}"
        async with behaviour.call("stream", channel, _text(list(stream.claims))):
            async for item in stream.batches() if self._by_batch else stream:
                partition = TopicPartition(item.topic, item.partition)
                behaviour.log(channel, f"{partition} {_offsets(item)}")
                if not await behaviour.handle(session, partition, _next_offset(item)):
                    return
            await behaviour.take_time("drain", channel)


def _offsets(item: Message | MessageBatch) -> str:
    return str(item.offset) if isinstance(item, Message) else f"{item.messages[0].offset}..{item.next_offset - 1}"


def _next_offset(item: Message | MessageBatch) -> int:
    return item.offset + 1 if isinstance(item, Message) else item.next_offset


def _text(partitions: Sequence[TopicPartition]) -> str:
    return " ".join(map(str, partitions)) or "nothing"
