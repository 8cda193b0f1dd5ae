"""Ours: a ConsumerGroup, and a handler with a task for each claim, in one process."""

from __future__ import annotations

import trio

from bench.consume.programs.reading import Stopwatch, Task
from sarameya import Claim, Config, ConsumerGroup, ConsumerGroupHandler, Session


class Reader(ConsumerGroupHandler):
    """Reads each claim to its end as it was at the start, then closes the group."""

    def __init__(self, task: Task, group: ConsumerGroup, watch: Stopwatch) -> None:
        self._ends = dict(enumerate(task.ends))
        self._group = group
        self._watch = watch
        self._begun = False
        self._done = trio.Event()
        self.messages = 0
        self.size = 0

    async def consume_claim(self, session: Session, claim: Claim) -> None:
        end = self._ends[claim.partition]
        if end:
            messages, size = await self.read(session, claim, end)
            self.messages += messages
            self.size += size
        del self._ends[claim.partition]
        if not self._ends:
            self._watch.last()
            self._done.set()
            self._group.close_nowait()
        # A claim that returned earlier would end the session for the others.
        await self._done.wait()

    async def read(self, session: Session, claim: Claim, end: int) -> tuple[int, int]:
        """Read to `end`. Return the number of messages, and the bytes of their keys and values."""
        raise NotImplementedError

    def first(self) -> None:
        """Note the first message of the first claim."""
        if not self._begun:
            self._begun = True
            self._watch.first()


class MessageReader(Reader):
    async def read(self, session: Session, claim: Claim, end: int) -> tuple[int, int]:
        last, count, size = end - 1, 0, 0
        async for message in claim:
            if not count:
                self.first()
            count += 1
            size += len(message.key) + len(message.value)  # type: ignore[arg-type]
            session.mark_message(message)
            if message.offset == last:
                break
        return count, size


class BatchReader(Reader):
    async def read(self, session: Session, claim: Claim, end: int) -> tuple[int, int]:
        count = size = 0
        async for batch in claim.batches():
            self.first()
            for message in batch:
                count += 1
                size += len(message.key) + len(message.value)  # type: ignore[arg-type]
            session.mark_batch(batch)
            if batch.next_offset >= end:
                break
        return count, size


class ArrowReader(Reader):
    async def read(self, session: Session, claim: Claim, end: int) -> tuple[int, int]:
        import pyarrow.compute as compute

        count = size = 0
        async for batch in claim.batches():
            self.first()
            table = batch.to_arrow()
            count += table.num_rows
            for column in ("key", "value"):
                size += compute.sum(compute.binary_length(table[column])).as_py()
            session.mark_batch(batch)
            if batch.next_offset >= end:
                break
        return count, size


WAYS: dict[str, type[Reader]] = {"messages": MessageReader, "batches": BatchReader, "arrow": ArrowReader}


async def main(task: Task) -> None:
    if task.way == "arrow":  # loaded before the watch is started
        import pyarrow.compute  # noqa: F401
    watch = Stopwatch()
    config = Config(offset_initial="oldest")
    async with ConsumerGroup([task.bootstrap], task.group, config) as group:
        reader = WAYS[task.way](task, group, watch)
        await group.consume([task.topic], reader)
    watch.report(reader.messages, reader.size, "sarameya")


if __name__ == "__main__":
    trio.run(main, Task.of_command_line())
