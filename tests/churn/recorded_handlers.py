"""Handlers of many kinds, whose calls are recorded. What they do depends on their name and on how often they did it."""

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
"""Takes a channel, within which the order of lines counts, and a line."""

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
"""Tempers of handlers."""


class HandlerError(Exception):
    """Raised by a handler on purpose."""


class Draws:
    """Random choices that depend on a name and on how often it was drawn for, and on nothing else."""

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
        """Record a call, how long it took and how it ended."""
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

    async def take_time(self, name: str, whose: str = "") -> None:
        """Wait as this handler does in calls of this name; raise if it is one that fails."""
        rng, temper = self.draws.of(f"{name} {whose}"), self.temper
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

    async def handle(self, session: Session, partition: TopicPartition, behind: int) -> bool:
        """Deal with what was taken of a partition up to `behind`, and mark it. Return whether to read on."""
        rng, temper = self.draws.of(f"message {partition}"), self.temper
        await trio.sleep(rng.uniform(0.001, 0.4))
        draw = rng.random()
        if temper == "failing" and draw < 0.03:
            raise HandlerError(f"message before {partition}@{behind}")
        session.mark_offset(*partition, behind, "x" if rng.random() < 0.1 else "")
        if temper == "ending" and draw < 0.05:
            session.end("the handler has had enough")
        if temper == "ending" and draw > 0.97:
            return False
        if temper == "committing" and draw < 0.2:
            await session.commit()
        return True


class _RecordedHooks(ConsumerGroupHandler):
    """Every call but those that read."""

    def __init__(self, does: Behaviour, by_batch: bool) -> None:
        self._does = does
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
        async with self._does.call("start", f"start {partition}", str(known)):
            await self._does.take_time("start", str(partition))
            rng = self._does.draws.of(f"chosen start {partition}")
            return None if known is None or rng.random() < 0.8 else max(known - rng.randrange(3), 0)

    async def _call(self, name: str, what: str) -> None:
        async with self._does.call(name, "calls", what):
            await self._does.take_time(name)


class RecordedClaims(_RecordedHooks):
    """Reads claims, message by message or batch by batch."""

    async def consume_claim(self, session: Session, claim: Claim) -> None:
        does, partition = self._does, claim.topic_partition
        channel = f"claim {partition}"
        async with does.call("claim", channel, f"from {claim.initial_offset}"):
            async for what in claim.batches() if self._by_batch else claim:
                does.log(channel, _taken(what))
                if not await does.handle(session, partition, _behind(what)):
                    return
            await does.take_time("drain", channel)


class RecordedStreams(_RecordedHooks, StreamHandler):
    """Reads several claims in a task, message by message or batch by batch."""

    def __init__(self, does: Behaviour, by_batch: bool, streams: int) -> None:
        super().__init__(does, by_batch)
        self.streams = streams

    async def consume_stream(self, session: Session, stream: Stream) -> None:
        does, channel = self._does, f"stream {stream.index}"
        async with does.call("stream", channel, _text(list(stream.claims))):
            async for what in stream.batches() if self._by_batch else stream:
                partition = TopicPartition(what.topic, what.partition)
                does.log(channel, f"{partition} {_taken(what)}")
                if not await does.handle(session, partition, _behind(what)):
                    return
            await does.take_time("drain", channel)


def _taken(what: Message | MessageBatch) -> str:
    return str(what.offset) if isinstance(what, Message) else f"{what.messages[0].offset}..{what.next_offset - 1}"


def _behind(what: Message | MessageBatch) -> int:
    return what.offset + 1 if isinstance(what, Message) else what.next_offset


def _text(partitions: Sequence[TopicPartition]) -> str:
    return " ".join(map(str, partitions)) or "nothing"
