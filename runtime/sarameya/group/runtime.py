"""The base of groups and consumers: connections and metadata of one cluster, for the length of a block.

Connections and metadata run in a shielded task. If the code around the block is cancelled, they continue until the
block is left, so that a session or a consumer can still commit and leave.

A rule that is easily broken:

- A task that shields itself must not be started by `nursery.start`: if the start is cancelled, trio waits forever for
  the shielded task (`tests/group/test_cancellation.py`).
"""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

import attrs
import trio

from sarameya.config import Config
from sarameya.group.delivery.interceptors import ConsumerInterceptor, Interceptors
from sarameya.group.delivery.time_slices import HandlerTime
from sarameya.net.broker_pool import BrokerPool, check_runs_on_trio, open_broker_pool
from sarameya.net.connection import OnResponse, ignore_response
from sarameya.net.metadata_refresher import MetadataRefresher
from sarameya.net.security.tls import secured
from sarameya.net.transport import TcpTransport, Transport
from sarameya.observe import Observer
from sarameya.protocol.backoff import Backoff
from sarameya.protocol.fetch.byte_budget import ByteBudget


@attrs.frozen(slots=True)
class Runtime:
    """Shared objects of all sessions of a group, or of a consumer without a group."""

    group: str
    """Id of the group; empty if there is none."""
    config: Config
    pool: BrokerPool
    metadata: MetadataRefresher
    observer: Observer
    backoff: Backoff
    budget: ByteBudget
    """Byte budget for all messages that are fetched and not processed, of all sessions together."""
    wall_clock: Callable[[], float]
    """Returns the seconds since 1970, for comparisons with timestamps of messages. Timers use trio's clock."""
    interceptors: Interceptors
    handler_time: HandlerTime
    shielded: trio.Nursery
    """For tasks that run until the end of the block, even if it is cancelled."""


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
    answered: OnResponse = ignore_response,
    overload: float = math.inf,
) -> AsyncIterator[Runtime]:
    """Open the runtime of one cluster. All its tasks and connections end with the block.

    Opening reads files, such as certificates. There is no other I/O before the runtime is used.

    Args:
        group: Id of the group; empty for none.
        bootstrap_servers: HOST:PORT strings, or one string with commas between them.
        config: Options.
        observer: Called with every event.
        backoff: Delays between retries.
        transport: Opens streams; TCP if None.
        wall_clock: Returns the seconds since 1970.
        interceptors: Read or change messages before the handler receives them.
        answered: Called with the duration of each request.
        overload: See `HandlerTime`.

    Raises:
        ConfigError: A file named by the options cannot be used.
        RuntimeError: The caller does not run on trio.
    """
    check_runs_on_trio()
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
        # Not `nursery.start`: a task that shields itself would never end after a cancelled start.
        scope, ready = trio.CancelScope(shield=True), trio.Event()
        nursery.start_soon(run)
        try:
            await ready.wait()
            assert runtime is not None
            with handler_time.measured():
                yield runtime
        finally:
            scope.cancel()
