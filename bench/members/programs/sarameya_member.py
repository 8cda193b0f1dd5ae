"""Sarameya's member: a ConsumerGroup, and a handler with a task for each claim, in one process."""

from __future__ import annotations

from collections.abc import Sequence

import trio

from bench.members.programs.reporter import Reporter
from bench.members.protocol import NEVER
from sarameya import Claim, Config, ConsumerGroup, ConsumerGroupHandler, Session, TopicPartition


class Handler(ConsumerGroupHandler):
    def __init__(self, reporter: Reporter) -> None:
        self._reporter = reporter

    async def partitions_assigned(self, session: Session, partitions: Sequence[TopicPartition]) -> None:
        self._reporter.assigned(len(partitions))

    async def consume_claim(self, session: Session, claim: Claim) -> None:
        pace = self._reporter.task.pace_of(claim.partition)
        if pace == NEVER:
            await trio.sleep_forever()
        elif pace or self._reporter.task.is_stamped or self._reporter.task.commits:
            await self._handle(session, claim)
        else:
            await self._count(claim)

    async def _handle(self, session: Session, claim: Claim) -> None:
        commits = self._reporter.task.commits
        async for message in claim:
            if pace := self._reporter.handle(message.partition, message.value or b""):
                await trio.sleep(pace)
            if commits:
                session.mark_message(message)

    async def _count(self, claim: Claim) -> None:
        counts, partition = self._reporter.counts, claim.partition
        async for _ in claim:
            counts[partition] += 1


async def main() -> None:
    reporter = Reporter("sarameya")
    task = reporter.task
    config = Config.from_mapping({"offset_initial": "oldest", "autocommit": task.commits, **task.options})
    async with ConsumerGroup([task.bootstrap], task.group, config) as group:
        await group.consume([task.topic], Handler(reporter))


if __name__ == "__main__":
    trio.run(main)
