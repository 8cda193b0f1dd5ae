"""The connections of one play. Each is opened by its first request, and read by a task of its own.

So the play notices a late response, and a connection that the broker closes.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import attrs
import trio

from tests.embedded.wire_client import WireClient
from tests.transcripts.stage import Broker, Stage

HUNG_UP = "hung up"


@attrs.define(slots=True, eq=False)
class Connection:
    """A named client's connection. It waits for one response at a time."""

    name: str
    client: WireClient
    waits_for: str | None = None
    """The label of the step whose response has not been recorded yet."""
    answered: trio.Event = attrs.field(factory=trio.Event)
    answer: Any = None

    async def send(self, message: Any) -> None:
        if self.answer is HUNG_UP:
            return  # `answered` stays set
        self.answered = trio.Event()
        # `read` notices that the broker has closed the connection.
        with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
            await self.client.send(message)

    async def read(self) -> None:
        """Receive responses until the broker closes the connection."""
        while self.answer is not HUNG_UP:
            try:
                self.answer = await self.client.receive()
            except (EOFError, trio.BrokenResourceError):
                self.answer = HUNG_UP
            self.answered.set()


class Connections:
    """Connections by client name, one to each broker that the client uses. They live as long as the nursery."""

    def __init__(self, stage: Stage, nursery: trio.Nursery) -> None:
        self._stage = stage
        self._nursery = nursery
        self._open: dict[tuple[str, Broker], Connection] = {}

    def __iter__(self) -> Iterator[Connection]:
        return iter(self._open.values())

    async def to(self, broker: Broker, name: str) -> Connection:
        at = name, broker
        if at not in self._open:
            self._open[at] = await self._nursery.start(self._run, name, broker)
        return self._open[at]

    def forget(self, connection: Connection) -> None:
        """Drop a connection that the broker has closed; the client's next request opens a new one."""
        self._open = {at: c for at, c in self._open.items() if c is not connection}

    async def _run(self, name: str, broker: Broker, *, task_status: trio.TaskStatus[Connection]) -> None:
        async with self._stage.client(broker.host, broker.port, client_id=name) as client:
            connection = Connection(name, client)
            task_status.started(connection)
            await connection.read()
