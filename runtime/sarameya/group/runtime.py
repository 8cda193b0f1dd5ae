"""What groups and consumers stand on: connections and metadata of one cluster, for the length of a block.

They run in a shielded task: when the code around the block is cancelled, they go on until it has been left, so that
whoever ends there can still commit and say good-bye.
"""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

import attrs
import trio

from sarameya.config import Config
from sarameya.group.interceptors import ConsumerInterceptor, Interceptors
from sarameya.group.time_slices import HandlerTime
from sarameya.net.broker_pool import BrokerPool, open_broker_pool
from sarameya.net.connection import Answered, nobody_asks
from sarameya.net.metadata_refresher import MetadataRefresher
from sarameya.net.tls import secured
from sarameya.net.transport import TcpTransport, Transport
from sarameya.observe import Observer
from sarameya.protocol.backoff import Backoff
from sarameya.protocol.fetch.byte_budget import ByteBudget


@attrs.frozen(slots=True)
class Runtime:
    """What every session of a group works with, and a consumer without one."""

    group: str
    """The group's id; empty where there is none."""
    config: Config
    pool: BrokerPool
    metadata: MetadataRefresher
    observer: Observer
    backoff: Backoff
    budget: ByteBudget
    """For what all sessions together have fetched and not dealt with."""
    wall_clock: Callable[[], float]
    """Seconds since 1970: what timestamps of messages are compared with. Timers go by trio's clock."""
    interceptors: Interceptors
    handler_time: HandlerTime
    shielded: trio.Nursery
    """For tasks that go on until the end of the block, whoever is cancelled meanwhile."""


@asynccontextmanager
async def open_runtime(
    group: str,
    bootstrap_servers: Sequence[str] | str,
    config: Config,
    observer: Observer,
    backoff: Backoff,
    transport: Transport | None,
    wall_clock: Callable[[], float],
    interceptors: Sequence[ConsumerInterceptor] = (),
    answered: Answered = nobody_asks,
    overload: float = math.inf,
) -> AsyncIterator[Runtime]:
    """The runtime for one cluster; every task and connection of it ends with the block. No I/O until it is used, but
    for files. `overload`: as for `HandlerTime`. Raises ConfigError for files that cannot be used."""
    runtime: Runtime | None = None
    secure = await secured(transport or TcpTransport(), config, observer)
    chain = Interceptors(interceptors, observer)
    handler_time = HandlerTime(overload)

    async def run() -> None:
        nonlocal runtime
        with scope:
            async with (
                open_broker_pool(bootstrap_servers, config, observer, secure, answered) as pool,
                trio.open_nursery() as shielded,
            ):
                metadata = MetadataRefresher(pool, config, observer, backoff)
                shielded.start_soon(metadata.run)
                budget = ByteBudget(config.fetch_buffer_bytes)
                runtime = Runtime(
                    group,
                    config,
                    pool,
                    metadata,
                    observer,
                    backoff,
                    budget,
                    wall_clock,
                    chain,
                    handler_time,
                    shielded,
                )
                ready.set()
                await trio.sleep_forever()

    async with trio.open_nursery() as nursery:
        # Not `nursery.start`: a task that shields itself would outlive a cancelled start for ever.
        scope, ready = trio.CancelScope(shield=True), trio.Event()
        nursery.start_soon(run)
        try:
            await ready.wait()
            assert runtime is not None
            with handler_time.measured():
                yield runtime
        finally:
            scope.cancel()
