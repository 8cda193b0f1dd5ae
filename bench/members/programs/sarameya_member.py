"""Sarameya's member: a ConsumerGroup in one process, with a handler of claims, or a handler of messages ("messages").

A handler of claims has a task for each. With "concurrently" it reads them by `claim.concurrently`.
"""

from __future__ import annotations

from collections.abc import Sequence

import trio

from bench.members.programs.reporter import Reporter
from bench.members.protocol import NEVER
from sarameya import (
    Claim,
    Config,
    ConsumerGroup,
    ConsumerGroupHandler,
    Message,
    MessageHandler,
    Session,
    TopicPartition,
)


class ReportingHandler(ConsumerGroupHandler):
    def __init__(self, reporter: Reporter) -> None:
        self._reporter = reporter

    async def partitions_assigned(self, session: Session, partitions: Sequence[TopicPartition]) -> None:
        self._reporter.assigned(len(partitions))


class ClaimHandler(ReportingHandler):
    async def consume_claim(self, session: Session, claim: Claim) -> None:
        pace = self._reporter.task.pace_of(claim.partition)
        if pace == NEVER:
            await trio.sleep_forever()
        elif pace or self._reporter.task.is_stamped or self._reporter.task.commits:
            await self._handle(session, claim)
        else:
            await self._count(claim)

    async def _handle(self, session: Session, claim: Claim) -> None:
        task = self._reporter.task
        commits = task.commits
        async for message in claim.concurrently(task.concurrency) if task.way == "concurrently" else claim:
            if pace := self._reporter.handle(message.partition, message.value or b""):
                await trio.sleep(pace)
            if commits:
                session.mark_message(message)

    async def _count(self, claim: Claim) -> None:
        counts, partition = self._reporter.counts, claim.partition
        async for _ in claim:
            counts[partition] += 1


class WaitingHandler(ReportingHandler, MessageHandler):
    def __init__(self, reporter: Reporter) -> None:
        super().__init__(reporter)
        self.ordering = reporter.task.ordering  # type: ignore[assignment]
        self.concurrency = reporter.task.concurrency

    async def handle(self, message: Message) -> None:
        await trio.sleep(self._reporter.task.pace_of(message.partition))
        self._reporter.handle(message.partition, message.value or b"")


async def main() -> None:
    reporter = Reporter("sarameya")
    task = reporter.task
    config = Config.from_mapping({"offset_initial": "oldest", "autocommit": task.commits, **task.options})
    async with ConsumerGroup([task.bootstrap], task.group, config) as group:
        handler = WaitingHandler(reporter) if task.way == "messages" else ClaimHandler(reporter)
        await group.consume([task.topic], handler)


if __name__ == "__main__":
    trio.run(main)
