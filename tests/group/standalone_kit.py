"""Helpers of the tests of `Consumer`, which has no group protocol: a consumer that keeps its events, and transports."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, TypeVar

import trio

from sarameya import Claim, Config, Consumer, ConsumerInterceptor, Event, Message, TopicPartition
from sarameya.embedded import EmbeddedCluster
from tests.group.kit import Through, assert_given_back

E = TypeVar("E")
ORDERS = [TopicPartition("orders", number) for number in range(4)]


class Watched(Consumer):
    """A consumer that keeps its events. After it is closed, it must have given back all bytes of its budget."""

    def __init__(
        self,
        cluster: EmbeddedCluster,
        group_id: str | None = None,
        *,
        transport: Any = None,
        interceptors: Sequence[ConsumerInterceptor] = (),
        wall_clock: Callable[[], float] = time.time,
        **options: Any,
    ) -> None:
        self.events: list[Event] = []
        super().__init__(
            cluster.bootstrap_servers,
            Config(**options),
            group_id=group_id,
            observers=[self.events.append],
            transport=transport or cluster.transport,
            interceptors=interceptors,
            rng=random.Random(1),
            wall_clock=wall_clock,
        )

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        budget = self._opened._runtime.budget
        await super().__aexit__(kind, error, trace)
        assert_given_back(budget)

    def seen(self, kind: type[E]) -> list[E]:
        return [event for event in self.events if isinstance(event, kind)]


async def take(claim: Claim, count: int) -> list[Message]:
    """Return the next `count` messages."""
    messages: list[Message] = []
    while len(messages) < count:
        messages.append(await anext(aiter(claim)))
    return messages


async def offsets_of(claim: Claim, count: int) -> list[int]:
    return [message.offset for message in await take(claim, count)]


class CountingTransport:
    """A transport that knows its open streams."""

    def __init__(self, transport: Any) -> None:
        self._transport = transport
        self.open: set[trio.abc.Stream] = set()

    async def connect(self, host: str, port: int) -> trio.abc.Stream:
        stream = _Counted(self, await self._transport.connect(host, port))
        self.open.add(stream)
        return stream


class _Counted(Through):
    def __init__(self, owner: CountingTransport, stream: trio.abc.Stream) -> None:
        super().__init__(stream)
        self._owner = owner

    async def aclose(self) -> None:
        self._owner.open.discard(self)
        await super().aclose()
