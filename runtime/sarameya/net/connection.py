"""Connection to a broker: any number of requests in flight, each with its deadline.

Two tasks own the stream, one for each direction. Callers only wait for their response, and a third task watches the
deadlines. If the socket has room, a request is sent before `request` waits for the first time, so that it is on the
wire before any other task runs. A connection ends at its first transport or protocol error, or at a request's deadline.
Every waiting caller then gets the cause as an exception. The pool opens a new connection.

A rule that is easily broken:

- A broker answers the requests of a connection in order. A held join therefore blocks every later request, and a late
  response makes all later responses late: the connection is closed. Test:
  `tests/net/test_connection.py::test_late_response_ends_the_connection_with_a_timeout`.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import attrs
import trio
from kafka.protocol.api_message import ApiMessage
from kafka.protocol.metadata import ApiVersionsRequest

from sarameya._version import __version__
from sarameya.error_codes import ErrorCode
from sarameya.errors import (
    ConnectionLostError,
    ProtocolError,
    RequestTimeoutError,
    ResponseTooLargeError,
    SarameyaError,
)
from sarameya.net.security.sasl_session import Sasl, SaslSession
from sarameya.net.security.tls import tls_error
from sarameya.net.transport import receiver, sender_now
from sarameya.protocol.versions import CLIENT_VERSIONS, Api, VersionRange, broker_versions, negotiate
from sarameya.protocol.wire.client_wire import ClientWire


@attrs.define(slots=True)
class _Waiter:
    """Pending request, with a slot for its response."""

    what: str
    timeout: float
    deadline: float
    is_internal: bool
    """True for requests that the connection makes itself, to authenticate."""
    event: trio.Event = attrs.field(factory=trio.Event)
    answer: Any = None


OnResponse = Callable[[str, float], None]
"""Called with each response: name of the request's class, and seconds until the response."""


def ignore_response(request: str, seconds: float) -> None:
    """Do nothing: the default if responses are not counted."""


class Connection:
    """Connection to one broker over a stream. Made by `BrokerPool`; `run` must be running while it is used."""

    def __init__(
        self,
        stream: trio.abc.Stream,
        address: str,
        client_id: str,
        max_response_bytes: int,
        answered: OnResponse = ignore_response,
    ) -> None:
        self.address = address
        self._answered = answered
        self._stream = stream
        self._wire = ClientWire(client_id, max_response_bytes)
        self._waiters: dict[int, _Waiter] = {}
        # Its deadline is that of the next request to time out, or earlier.
        self._next_check = trio.CancelScope()
        self._something_to_send = trio.Event()
        self._send_now = sender_now(stream)
        # The rest of the bytes that `_send` could send only in part.
        self._unsent = b""
        self._is_writing = False
        self._versions: Mapping[int, VersionRange] = {}
        # The negotiated version of each API that was used.
        self._negotiated: dict[int, int] = {}
        self._session: SaslSession | None = None
        self._is_authenticated = trio.Event()
        self._has_answered = False
        """True once the broker has answered a request of a caller."""
        self._scope = trio.CancelScope()
        self._ended: SarameyaError | None = None
        self._was_waited_on = False

    @property
    def in_flight(self) -> int:
        """Number of requests without a response yet."""
        return self._wire.in_flight

    @property
    def is_open(self) -> bool:
        return self._ended is None

    @property
    def was_waited_on(self) -> bool:
        """True if a caller was waiting for a response when the connection ended."""
        return self._was_waited_on

    @property
    def cause_of_end(self) -> SarameyaError | None:
        """Reason why the connection ended, or None while it is open."""
        return self._ended

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Send and receive until the connection ends. Never raises: the waiting callers get the cause."""
        try:
            with self._scope:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._write)
                    nursery.start_soon(self._read)
                    nursery.start_soon(self._watch_deadlines)
                    nursery.start_soon(self._renew_session)
                    task_status.started()
        except* (trio.BrokenResourceError, trio.ClosedResourceError, OSError) as group:
            error = _first(group)
            self._end(tls_error(self.address, error) or ConnectionLostError(f"{self.address}: {error}"))
        except* SarameyaError as group:
            self._end(_first(group))
        finally:
            self._end(ConnectionLostError(f"{self.address}: the connection was closed"))
            await trio.aclose_forcefully(self._stream)

    def close(self, cause: SarameyaError | None = None) -> None:
        """End the connection now; waiting callers get `cause`."""
        self._end(cause or ConnectionLostError(f"{self.address}: the connection was closed"))
        self._scope.cancel()

    async def negotiate(self, timeout: float) -> None:
        """Request the broker's API versions (KIP-35). Must come before any other request.

        Raises:
            ConnectionLostError: The connection ends.
            RequestTimeoutError: No response within `timeout` seconds.
            ProtocolError: The peer is not a Kafka broker.
        """
        version = CLIENT_VERSIONS[Api.API_VERSIONS].high
        try:
            answer = await self._exchange(_api_versions_request(version), timeout)
        except ResponseTooLargeError as error:  # a Kafka broker's response to this is small
            raise ProtocolError(*error.args) from None
        if answer.error_code == ErrorCode.UNSUPPORTED_VERSION:
            answer = await self._exchange(_api_versions_request(0), timeout)
        if answer.error_code:
            raise ProtocolError(f"{self.address}: ApiVersions: {ErrorCode.describe(answer.error_code)}")
        self._versions = broker_versions((k.api_key, k.min_version, k.max_version) for k in answer.api_keys)

    async def authenticate(self, sasl: Sasl) -> None:
        """Authenticate, and from then on renew the SASL session before it expires.

        Call it right after `negotiate`. Raises as `request` does, and:

        Raises:
            AuthenticationError: The broker refuses.
            TokenError: No credentials are available.
        """
        self._session = SaslSession(sasl, self, partial(self._exchange, is_internal=True))
        await self._session.begin()
        self._is_authenticated.set()

    async def _renew_session(self) -> None:
        await self._is_authenticated.wait()
        assert self._session is not None
        await self._session.keep()

    @property
    def busy_until(self) -> float:
        """Latest deadline of the pending requests; the current time if there are none."""
        return max((waiter.deadline for waiter in self._waiters.values()), default=trio.current_time())

    def version_of(self, api: Api) -> int:
        """Return the negotiated version of `api`. Raises UnsupportedVersionError."""
        return negotiate(api, self._versions)

    async def request(
        self, message: type[ApiMessage], timeout: float, *, newest: int | None = None, **fields: Any
    ) -> Any:
        """Send a request and wait for its response. Cancellation drops the response, not the connection.

        Args:
            message: Class of the request: kafka-python's, or our own class with the same interface.
            timeout: Seconds to wait for the response.
            newest: Highest version to use; the negotiated version if left out.
            **fields: Fields of the request. Those that the version does not know are left out.

        Raises:
            ConnectionLostError: The connection ends.
            RequestTimeoutError: No response in time. The connection ends, too.
            ProtocolError: The request cannot be encoded, or the response is malformed.
            UnsupportedVersionError: The broker and this client share no version.
        """
        version = self._negotiated.get(message.API_KEY)
        if version is None:
            version = self._negotiated[message.API_KEY] = self.version_of(Api(message.API_KEY))
        if newest is not None:
            version = min(version, newest)
        if (session := self._session) is not None and session.gate is not None:
            timeout = await session.pass_gate(message.__name__, timeout)
        answer = await self._exchange(message[version](**fields), timeout)
        self._has_answered = True
        return answer

    async def _exchange(self, request: ApiMessage, timeout: float, *, is_internal: bool = False) -> Any:
        if self._ended is not None:
            raise self._ended.again()
        try:
            correlation_id = self._wire.send(request)
        except (struct.error, ValueError, TypeError) as error:
            raise ProtocolError(f"{type(request).__name__} cannot be encoded: {error}") from error
        began = trio.current_time()
        deadline = began + timeout
        waiter = self._waiters[correlation_id] = _Waiter(type(request).__name__, timeout, deadline, is_internal)
        if deadline < self._next_check.deadline:
            self._next_check.deadline = deadline
        self._send()
        try:
            await waiter.event.wait()
        finally:
            del self._waiters[correlation_id]
        if waiter.answer is not None:
            self._answered(waiter.what, trio.current_time() - began)
            return waiter.answer
        assert self._ended is not None
        raise self._ended.again()

    def _send(self) -> None:
        """Send the queued bytes. If that would block, wake the writing task."""
        if not (self._is_writing or self._unsent):
            data = self._wire.data_to_send()
            self._unsent = data[self._send_now(data) :]
            if not self._unsent:
                return
        self._something_to_send.set()

    async def _write(self) -> None:
        while True:
            await self._something_to_send.wait()
            self._something_to_send = trio.Event()
            data, self._unsent = self._unsent + self._wire.data_to_send(), b""
            if data:
                self._is_writing = True
                await self._stream.send_all(data)
                self._is_writing = False

    async def _read(self) -> None:
        receive_into = receiver(self._stream)
        while True:
            with self._wire.get_buffer() as buffer:
                count = await receive_into(buffer, self._wire.awaited)
            if not count:
                raise ConnectionLostError(f"{self.address}: the peer closed the connection{self._hint}")
            try:
                answers = self._wire.buffer_updated(count)
            except ProtocolError as error:
                raise type(error)(f"{self.address}: {error}") from error
            for correlation_id, answer in answers:
                # A cancelled caller has removed its slot; its response is dropped.
                if (waiter := self._waiters.get(correlation_id)) is not None:
                    waiter.answer = answer
                    waiter.event.set()

    @property
    def _hint(self) -> str:
        """Probable cause if a broker answers ApiVersions, and closes the connection at the next request."""
        answered_nothing_else = self._versions and self._session is None and not self._has_answered
        return "; does its listener require SASL?" if answered_nothing_else and self._waiters else ""

    async def _watch_deadlines(self) -> None:
        """End the connection once a response is late.

        One task for all requests, since a cancel scope for each request would cost more than its encoding.
        """
        while True:
            waiting = [waiter for waiter in self._waiters.values() if not waiter.event.is_set()]
            late = [waiter for waiter in waiting if waiter.deadline <= trio.current_time()]
            if late:
                self.close(
                    RequestTimeoutError(f"{self.address}: no response to {late[0].what} in {late[0].timeout:g} s")
                )
            with trio.CancelScope(deadline=min((w.deadline for w in waiting), default=math.inf)) as self._next_check:
                await trio.sleep_forever()

    def _end(self, cause: SarameyaError) -> None:
        if self._ended is None:
            self._ended = cause
            self._was_waited_on = not all(waiter.is_internal for waiter in self._waiters.values())
            for waiter in self._waiters.values():
                waiter.event.set()


def _api_versions_request(version: int) -> ApiMessage:
    return ApiVersionsRequest[version](client_software_name="sarameya", client_software_version=__version__)


def _first(group: BaseExceptionGroup[Any]) -> Any:
    """Return the first exception in a group. The others are consequences of it in the other tasks."""
    found: Any = group
    while isinstance(found, BaseExceptionGroup):
        found = found.exceptions[0]
    return found
