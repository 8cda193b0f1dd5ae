"""A group member for asyncio programs."""

from __future__ import annotations

import random
import re
import time
from collections.abc import Callable, Iterable, Sequence
from typing import overload

from sarameya.asyncio.block import ThreadBlock
from sarameya.asyncio.bridges import bridge_to
from sarameya.asyncio.handlers import ConsumerGroupHandler, check_handler
from sarameya.asyncio.pausing import AsyncPausing
from sarameya.config import Config
from sarameya.group import consumer_group
from sarameya.group.delivery.interceptors import ConsumerInterceptor
from sarameya.meters import Meters
from sarameya.net.transport import Transport
from sarameya.observe import Observer
from sarameya.protocol.assignors.base import Assignor
from sarameya.status import GroupStatus

_CLOSED = "a ConsumerGroup works only inside its block: `async with ConsumerGroup(...) as group`"


class ConsumerGroup(ThreadBlock, AsyncPausing):
    """A member of a consumer group, for asyncio: the same as `sarameya.ConsumerGroup`.

    Example::

        async with ConsumerGroup(["localhost:9092"], "billing") as group:
            await group.consume(["orders"], Orders())

    The member lives in a thread of its own, from the beginning of the block to its end. Handlers run as tasks of the
    event loop of the block. While they block the loop, the member keeps its membership.

    Observers, interceptors, assignors, `wall_clock` and `Config.sasl_token` are called in the member's thread, where
    they must not block.

    Args:
        bootstrap_servers: HOST:PORT strings, or one string with commas between them.
        group_id: Id of the group.
        config: Options; the defaults if None.
        observers: Called with every event (see `sarameya.observe`).
        interceptors: Read or change messages before the handler receives them (see `ConsumerInterceptor`).
        assignors: Used instead of `Config.rebalance_strategies`, best first; may be your own classes.
        transport: Opens streams, with trio; TCP by default.
        rng: Jitters the delays of retries. With a fixed seed they are the same in every run.
        wall_clock: Returns the seconds since 1970. A start offset given as a duration counts back from this time.

    Raises:
        ConfigError: An address, the group id, an assignor or an interceptor is invalid.
    """

    def __init__(
        self,
        bootstrap_servers: Sequence[str] | str,
        group_id: str,
        config: Config | None = None,
        *,
        observers: Iterable[Observer] = (),
        interceptors: Sequence[ConsumerInterceptor] = (),
        assignors: Sequence[Assignor] = (),
        transport: Transport | None = None,
        rng: random.Random | None = None,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        self._group = consumer_group.ConsumerGroup(
            bootstrap_servers,
            group_id,
            config,
            observers=observers,
            interceptors=interceptors,
            assignors=assignors,
            transport=transport,
            rng=rng,
            wall_clock=wall_clock,
        )
        self._live_in(f"sarameya group {group_id}", self._group, _CLOSED)

    @property
    def group_id(self) -> str:
        """Id of the group."""
        return self._group.group_id

    @property
    def config(self) -> Config:
        """Options."""
        return self._group.config

    @property
    def buffered_bytes(self) -> int:
        """Bytes that were fetched and are not processed yet.

        At most `Config.fetch_buffer_bytes`, and for each broker one record batch larger than requested.
        """
        return self._group.buffered_bytes

    @property
    def meters(self) -> Meters:
        """Counters of this member since its creation. The returned object keeps counting."""
        return self._group.meters

    @property
    def _pausing(self) -> consumer_group.ConsumerGroup:
        return self._group

    @overload
    async def consume(self, topics: Iterable[str], handler: ConsumerGroupHandler) -> None: ...

    @overload
    async def consume(self, *, pattern: re.Pattern[str], handler: ConsumerGroupHandler) -> None: ...

    async def consume(
        self,
        topics: Iterable[str] | None = None,
        handler: ConsumerGroupHandler | None = None,
        *,
        pattern: re.Pattern[str] | None = None,
    ) -> None:
        """Consume as a member of the group, session after session. Returns after `close`.

        An exception is raised after the session has ended in order and the group was left. Cancelling the call ends the
        session in order, too, within `close_timeout`; then it raises CancelledError or, if the handler has failed
        meanwhile, the handler's exceptions. Cancelling a task of the handler has the same effect.

        Args:
            topics: Names of the topics to subscribe to.
            handler: Called with each session and its claims. Sees the context variables of the caller.
            pattern: Instead of `topics`: subscribe to every topic whose whole name matches, now or later, except
                Kafka's internal topics.

        Raises:
            ExceptionGroup: The ClaimErrors of the handler's tasks, and the exceptions of its other methods.
            GroupError: The coordinator refused this member permanently.
            ConnectError: The cluster was not reached at the start.
            UnknownTopicError: A topic was not found at the start.
            ConfigError: Topics, the handler or its options are invalid.
            TypeError: The handler is left out.
            AssignorError: An assignor failed.
            ProtocolError: The leader's assignment cannot be decoded.
        """
        portal = self._portal
        if handler is None:
            raise TypeError("consume() needs a handler")
        bridge = bridge_to(check_handler(handler), portal)

        async def consume() -> None:
            await self._group.consume(topics, bridge, pattern=pattern)  # type: ignore[call-overload]

        await portal.call(consume)

    @overload
    async def subscribe(self, topics: Iterable[str]) -> None: ...

    @overload
    async def subscribe(self, *, pattern: re.Pattern[str]) -> None: ...

    async def subscribe(self, topics: Iterable[str] | None = None, *, pattern: re.Pattern[str] | None = None) -> None:
        """Subscribe to other topics while `consume()` runs. A coroutine here.

        The member rejoins the group with them; partitions of other topics are revoked. If a topic does not exist, its
        partitions are assigned once it does.

        Args:
            topics: Names of the topics.
            pattern: Instead of `topics`: matches whole names of topics.

        Raises:
            ConfigError: The topics are invalid.
            RuntimeError: `consume()` is not running.
        """
        await self._portal.call_sync(lambda: self._group.subscribe(topics, pattern=pattern))  # type: ignore[call-overload]

    async def unsubscribe(self) -> None:
        """Drop the subscription: the session ends in order, the member leaves, `consume()` waits for `subscribe`."""
        await self._portal.call_sync(self._group.unsubscribe)

    async def status(self) -> GroupStatus:
        """Return a snapshot of this member, partition by partition. A coroutine here."""
        return await self._portal.call_sync(self._group.status)

    def close_nowait(self, reason: str = "the group is closed") -> None:
        """Make `consume()` stop fetching, drain, clean up, commit, leave the group, and then return.

        May be a signal's handler: `loop.add_signal_handler(signal.SIGTERM, group.close_nowait)`.

        Args:
            reason: Sent to the broker, which logs it (KIP-800).
        """
        self._portal.post(self._group.close_nowait, reason)

    async def close(self, reason: str = "the group is closed") -> None:
        """Call `close_nowait`, then wait until `consume()` has ended. A handler calls `close_nowait` only."""
        await self._portal.call(self._group.close, reason)
