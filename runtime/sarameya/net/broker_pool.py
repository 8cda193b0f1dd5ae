"""Connections to a cluster's brokers, opened at the first use and kept until they end.

The pool owns every connection and its tasks. Each (broker, purpose) has its own connection, so that requests to the
coordinator never queue behind a long-polling fetch. The bootstrap servers' addresses are used until metadata has the
brokers' own. The pool never retries: the caller knows whether a request may be sent again.
"""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager
from enum import Enum, auto
from typing import Any

import attrs
import trio
from kafka.protocol.api_message import ApiMessage

from sarameya.config import Config
from sarameya.errors import (
    AuthenticationError,
    ConnectError,
    ConnectionLostError,
    ProtocolError,
    RequestTimeoutError,
    SarameyaError,
    TokenError,
    UnsupportedVersionError,
)
from sarameya.net.bootstrap import parse_bootstrap
from sarameya.net.broker_rotation import BrokerRotation, seconds_each
from sarameya.net.connection import Connection, OnResponse, ignore_response
from sarameya.net.security.refusals import Refusals
from sarameya.net.security.sasl_session import sasl_of
from sarameya.net.security.tls import secured
from sarameya.net.security.weak_security import weaknesses
from sarameya.net.transport import TcpTransport, Transport, why_not_connected
from sarameya.observe import ConnectionLost, Observer
from sarameya.protocol.cluster.metadata import Broker


class Purpose(Enum):
    """Purpose of a connection. A client has at most one connection per broker and purpose."""

    METADATA = auto()
    COORDINATOR = auto()
    """Joins, syncs and heartbeats."""
    OFFSETS = auto()
    """Commits, which go on while the broker holds a join: kept partitions are read through a rebalance (KIP-429)."""
    FETCH = auto()
    PRODUCE = auto()
    """Produce requests. Their responses wait for replicas, and block all later responses of the connection."""
    LEAVE = auto()
    """The leave: it must overtake a join that the broker still holds on the coordinator connection."""


@attrs.define(slots=True)
class _Opening:
    """A connection attempt in progress; every caller that needs the same connection waits for it."""

    done: trio.Event = attrs.field(factory=trio.Event)
    connection: Connection | None = None
    error: SarameyaError | None = None


@attrs.frozen(slots=True)
class _Outcome:
    """Outcome of one attempt of `request_any`: the broker's response, or the error."""

    broker: Broker
    answer: Any = None
    error: SarameyaError | None = None


Key = tuple[int, Purpose]


class BrokerPool:
    """Connections by node id and purpose. Use `open_broker_pool`."""

    def __init__(
        self,
        nursery: trio.Nursery,
        bootstrap: Sequence[Broker],
        config: Config,
        transport: Transport,
        observer: Observer,
        answered: OnResponse,
    ) -> None:
        self._nursery = nursery
        self._answered = answered
        self._bootstrap = {broker.node_id: broker for broker in bootstrap}
        self._config = config
        self._transport = transport
        self._sasl = sasl_of(config, observer)
        self._observer = observer
        self._brokers: Mapping[int, Broker] = {}
        self._connections: dict[Key, Connection] = {}
        self._openings: dict[Key, _Opening] = {}
        self._refusals = Refusals(config)
        self._rotation = BrokerRotation()

    def refusals(self, on_refusal: Callable[[AuthenticationError], None]) -> AbstractContextManager[None]:
        """Call `on_refusal` during a block for each broker that refuses this client, or fails to prove its identity.

        Tasks that send requests retry other failures, which usually pass. A retry after a refusal does not help, so
        the owner of these tasks should cancel them.
        """
        return self._refusals.listening(on_refusal)

    @contextmanager
    def until_refused(self) -> Iterator[None]:
        """Cancel a block, and raise AuthenticationError, as soon as a broker refuses this client."""
        refused: list[AuthenticationError] = []

        def end_block(error: AuthenticationError) -> None:
            refused.append(error)
            scope.cancel()

        with trio.CancelScope() as scope, self.refusals(end_block):
            yield
        if refused:
            raise refused[0].again()

    def update(self, brokers: Mapping[int, Broker]) -> None:
        """Use the addresses in the metadata. Close the connections to brokers that moved or left."""
        for (node_id, _), connection in tuple(self._connections.items()):
            moved = node_id not in brokers or brokers[node_id].address != connection.address
            # Bootstrap connections are not needed once the brokers are known by their ids.
            if moved and (node_id >= 0 or not connection.in_flight):
                connection.close()
        self._brokers = dict(brokers)

    @property
    def addresses(self) -> list[str]:
        """Addresses of all brokers, in the order in which `request_any` would use them."""
        return [broker.address for broker in self._rotation.order(self._askable, trio.current_time())]

    def learn(self, broker: Broker) -> None:
        """Use this address of one broker. Its source, the FindCoordinator response, may be newer than the metadata."""
        for (node_id, _), connection in tuple(self._connections.items()):
            if node_id == broker.node_id and connection.address != broker.address:
                connection.close()
        self._brokers = {**self._brokers, broker.node_id: broker}

    def broker(self, node_id: int) -> Broker | None:
        """Return the broker with its address, if it is known."""
        return self._brokers.get(node_id) or self._bootstrap.get(node_id)

    async def request(
        self, node_id: int, purpose: Purpose, message: type[ApiMessage], timeout: float | None = None, **fields: Any
    ) -> Any:
        """Send a request to a broker and return the response. The connection for `purpose` is opened if necessary.

        Args:
            node_id: The broker.
            purpose: Selects the connection.
            message: The request's class.
            timeout: Seconds; default `Config.request_timeout`.
            **fields: Arguments of `Connection.request`.

        Raises:
            ConnectionLostError: The connection cannot be opened, or ends.
            RequestTimeoutError: No response in time.
            ProtocolError: The response is malformed.
            UnsupportedVersionError: The broker and this client share no version of the request.
            AuthenticationError: The broker refuses this client.
            TokenError: No credentials are available.
        """
        try:
            connection = await self.connection(node_id, purpose)
            return await connection.request(message, timeout or self._config.request_timeout, **fields)
        except UnsupportedVersionError:
            raise
        except (ConnectionLostError, RequestTimeoutError, ProtocolError):
            self._report_failure(node_id)
            raise

    async def request_any(self, message: type[ApiMessage], **fields: Any) -> Any:
        """Send a request to any broker and return the first response.

        Successive requests start with different brokers. If a broker does not answer soon, the next broker gets the
        request as well, and so on until all have it. A slow broker is tried last for a while (`broker_rotation.py`).

        Raises:
            ConnectError: No broker answered within `Config.request_timeout`. The error lists each address and cause.
            AuthenticationError: A broker refused this client, as the others would.
            TokenError: No credentials are available.
        """
        config = self._config
        brokers = self._rotation.next_order(message.__name__, self._askable, trio.current_time())
        wait = seconds_each(len(brokers), min(config.request_timeout, config.bootstrap_timeout))
        causes = {broker.address: "no response" for broker in brokers}
        send, receive = trio.open_memory_channel[_Outcome](len(brokers))
        remaining, pending = iter(brokers), 0
        with trio.move_on_after(config.request_timeout):
            while True:
                if (broker := next(remaining, None)) is not None:
                    self._nursery.start_soon(self._try, broker, message, fields, send)
                    pending += 1
                elif not pending:
                    break
                with trio.CancelScope() as scope:
                    scope.relative_deadline = wait if broker is not None else math.inf
                    outcome = await receive.receive()
                    if outcome.error is None:
                        return outcome.answer
                    # Another broker would refuse this client, too, and would need the missing credentials, too.
                    if isinstance(outcome.error, AuthenticationError | TokenError):
                        raise outcome.error
                    causes[outcome.broker.address] = str(outcome.error).removeprefix(f"{outcome.broker.address}: ")
                    pending -= 1
                if scope.cancelled_caught and broker is not None:
                    self._report_failure(broker.node_id)
        raise ConnectError(
            "no broker could be reached: " + "; ".join(f"{address}: {cause}" for address, cause in causes.items())
        )

    async def _try(
        self, broker: Broker, message: type[ApiMessage], fields: Any, outcomes: trio.MemorySendChannel[_Outcome]
    ) -> None:
        """Send a request to one broker and report the outcome.

        Not cancelled when `request_any` returns: the deadline of the request then closes a dead connection.
        """
        outcome = _Outcome(broker, error=ConnectionLostError(f"{broker.address}: the pool was closed"))
        try:
            outcome = _Outcome(broker, await self.request(broker.node_id, Purpose.METADATA, message, **fields))
        except SarameyaError as error:
            outcome = _Outcome(broker, error=error)
        finally:
            outcomes.send_nowait(outcome)

    def _report_failure(self, node_id: int) -> None:
        if (broker := self.broker(node_id)) is not None:
            self._rotation.failed(broker.address, trio.current_time())

    async def connection(self, node_id: int, purpose: Purpose) -> Connection:
        """Return the connection for (node, purpose), opened if necessary. Simultaneous callers share one attempt."""
        key = (node_id, purpose)
        connection = self._connections.get(key)
        if connection is not None and connection.is_open:
            return connection
        opening = self._openings.get(key)
        if opening is None:
            opening = self._openings[key] = _Opening()
            self._nursery.start_soon(self._open, key, opening)
        await opening.done.wait()
        if opening.connection is not None:
            return opening.connection
        assert opening.error is not None
        raise opening.error.again()

    def close_connection(self, node_id: int, purpose: Purpose) -> None:
        """Close the connection for (node, purpose), if there is one.

        Used when the broker still holds a request whose response nobody waits for.
        """
        connection = self._connections.get((node_id, purpose))
        if connection is not None:
            connection.close()

    @property
    def _askable(self) -> list[Broker]:
        """The brokers in the metadata, then the bootstrap servers at other addresses."""
        known = sorted(self._brokers.values(), key=lambda broker: broker.node_id)
        addresses = {broker.address for broker in known}
        return known + [broker for broker in self._bootstrap.values() if broker.address not in addresses]

    async def _open(self, key: Key, opening: _Opening) -> None:
        """Open the connection for `key`, and report the result to the callers that wait for `opening`."""
        try:
            connection = await self._connect(key[0])
        except SarameyaError as error:
            opening.error = error
            if isinstance(error, AuthenticationError):
                self._refusals.notify(error)
        else:
            opening.connection = self._connections[key] = connection
        finally:
            if opening.connection is None and opening.error is None:
                opening.error = ConnectionLostError(f"broker {key[0]}: the pool was closed")
            del self._openings[key]
            opening.done.set()

    async def _connect(self, node_id: int) -> Connection:
        broker = self.broker(node_id)
        if broker is None:
            raise ConnectionLostError(f"broker {node_id}: its address is not known")
        with self._refusals.connecting(broker.address):
            return await self._connect_to(broker)

    async def _connect_to(self, broker: Broker) -> Connection:
        config = self._config
        with trio.move_on_after(config.connect_timeout) as scope:
            try:
                stream = await self._transport.connect(broker.host, broker.port)
            except (OSError, ValueError, OverflowError) as error:
                # ValueError: the name cannot be encoded. OverflowError: the port is out of range.
                raise ConnectionLostError(f"{broker.address}: {why_not_connected(error)}") from error
            connection = Connection(stream, broker.address, config.client_id, config.max_response_bytes, self._answered)
            await self._nursery.start(self._run, broker.node_id, connection)
            with _closed_on_failure(connection):
                await connection.negotiate(config.connect_timeout)
        if scope.cancelled_caught:
            raise RequestTimeoutError(f"{broker.address}: no connection within {config.connect_timeout:g} s")
        if self._sasl is not None:
            # Authentication has a timeout of its own: the source of a token may be slow.
            with _closed_on_failure(connection):
                await connection.authenticate(self._sasl)
        return connection

    async def _run(
        self, node_id: int, connection: Connection, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        """Run a connection until it ends, then report and forget it."""
        await connection.run(task_status=task_status)
        cause = connection.cause_of_end
        if isinstance(cause, AuthenticationError):  # the broker refuses a renewal, or our certificate
            self._refusals.remember(connection.address, cause)
            self._refusals.notify(cause)
        if connection.was_waited_on:  # the end of an idle connection disturbs no caller
            self._observer(ConnectionLost(node_id, connection.address, str(cause)))
        self._connections = {key: c for key, c in self._connections.items() if c is not connection}


@contextmanager
def _closed_on_failure(connection: Connection) -> Iterator[None]:
    try:
        yield
    except BaseException:
        connection.close()
        raise


def check_runs_on_trio() -> None:
    """Check that the caller runs on trio.

    Raises:
        RuntimeError: It does not. Programs on asyncio often import the class from the wrong package.
    """
    if not trio.lowlevel.in_trio_run():
        raise RuntimeError("this class runs on trio: a program on asyncio imports it from sarameya.asyncio")


@asynccontextmanager
async def open_broker_pool(
    bootstrap_servers: Iterable[str],
    config: Config,
    observer: Observer,
    transport: Transport | None = None,
    answered: OnResponse = ignore_response,
) -> AsyncIterator[BrokerPool]:
    """Open a pool for the cluster at `bootstrap_servers`; every connection ends with the block.

    No connection is made before the first request.

    Args:
        bootstrap_servers: Addresses, each `HOST:PORT`.
        config: Options.
        observer: Called with each event.
        transport: Opens the connections; TCP if left out.
        answered: Called with each response.

    Raises:
        ConfigError: An address is not HOST:PORT, or a certificate is unusable.
        RuntimeError: The caller does not run on trio.
    """
    check_runs_on_trio()
    bootstrap = parse_bootstrap(bootstrap_servers)
    secure = await secured(transport or TcpTransport(), config, observer)
    for weakness in weaknesses(config):
        observer(weakness)
    async with trio.open_nursery() as nursery:
        yield BrokerPool(nursery, bootstrap, config, secure, observer, answered)
        nursery.cancel_scope.cancel()
