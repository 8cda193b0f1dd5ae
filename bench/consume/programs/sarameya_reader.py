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
            messages, size = await self.read(claim, end)
            self.messages += messages
            self.size += size
        del self._ends[claim.partition]
        if not self._ends:
            self._watch.last()
            self._done.set()
            self._group.close_nowait()
        # A claim that returned earlier would end the session for the others.
        await self._done.wait()

    async def read(self, claim: Claim, end: int) -> tuple[int, int]:
        """How many messages came, and the size of their values."""
        raise NotImplementedError

    def first(self) -> None:
        """A claim's first message is here."""
        if not self._begun:
            self._begun = True
            self._watch.first()


class MessageReader(Reader):
    async def read(self, claim: Claim, end: int) -> tuple[int, int]:
        last = end - 1
        messages = aiter(claim)
        message = await anext(messages)
        self.first()
        count, size = 1, len(message.value or b"")
        if message.offset == last:
            return count, size
        async for message in messages:
            count += 1
            size += len(message.value)  # type: ignore[arg-type]
            if message.offset == last:
                break
        return count, size


class ArrowReader(Reader):
    async def read(self, claim: Claim, end: int) -> tuple[int, int]:
        import pyarrow.compute as compute

        count = size = 0
        async for batch in claim.batches():
            self.first()
            table = batch.to_arrow()
            count += table.num_rows
            size += compute.sum(compute.binary_length(table["value"])).as_py()
            if batch.next_offset >= end:
                break
        return count, size


WAYS: dict[str, type[Reader]] = {"messages": MessageReader, "arrow": ArrowReader}


async def main(task: Task) -> None:
    if task.way == "arrow":  # loaded before the watch is started
        import pyarrow.compute  # noqa: F401
    watch = Stopwatch()
    config = Config(offset_initial="oldest", autocommit=False)
    async with ConsumerGroup([task.bootstrap], task.group, config) as group:
        reader = WAYS[task.way](task, group, watch)
        await group.consume([task.topic], reader)
    watch.tell(reader.messages, reader.size, "sarameya")


if __name__ == "__main__":
    trio.run(main, Task.of_command_line())
