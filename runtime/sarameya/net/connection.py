"""One connection to one broker: any number of requests in flight, each with its deadline.

Two tasks own the stream, one each way; callers wait for their answer alone, and a third task looks to the deadlines. A
request is sent in the caller's own step where that takes no waiting, so that it is on the wire before any other task
has its turn. A connection ends once and for all: on its first transport or protocol error, or on a request's deadline
(answers come in order, so whatever stands behind a late one is late too). Whoever waits then gets the typed cause.
Reconnecting is the pool's.
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
from sarameya.net.sasl_session import Sasl, SaslSession
from sarameya.net.tls import tls_error
from sarameya.net.transport import receiver, sender_now
from sarameya.protocol.versions import CLIENT_VERSIONS, Api, VersionRange, broker_versions, negotiate
from sarameya.protocol.wire import ClientWire


@attrs.define(slots=True)
class _Waiter:
    """A caller's place for its answer."""

    what: str
    timeout: float
    deadline: float
    is_ours: bool
    """Whether the connection itself asks, for no caller's sake."""
    event: trio.Event = attrs.field(factory=trio.Event)
    answer: Any = None


Answered = Callable[[str, float], None]
"""Is told of each answer: to which request (the class's name), and after how many seconds."""


def nobody_asks(request: str, seconds: float) -> None:
    """Nobody counts answers."""


class Connection:
    """Requests over one stream. Made by `BrokerPool`; `run` must be running while it is used."""

    def __init__(
        self,
        stream: trio.abc.Stream,
        address: str,
        client_id: str,
        max_response_bytes: int,
        answered: Answered = nobody_asks,
    ) -> None:
        self.address = address
        self._answered = answered
        self._stream = stream
        self._wire = ClientWire(client_id, max_response_bytes)
        self._waiters: dict[int, _Waiter] = {}
        # Its deadline is when deadlines are looked at next: no later than the first of them.
        self._patience = trio.CancelScope()
        self._something_to_send = trio.Event()
        self._send_now = sender_now(stream)
        # What has been begun, and not yet sent.
        self._unsent = b""
        self._is_writing = False
        self._versions: Mapping[int, VersionRange] = {}
        self._session: SaslSession | None = None
        self._is_known = trio.Event()
        self._has_answered = False
        self._scope = trio.CancelScope()
        self._ended: SarameyaError | None = None
        self._was_waited_on = False

    @property
    def in_flight(self) -> int:
        """Requests that await their answer."""
        return self._wire.in_flight

    @property
    def is_open(self) -> bool:
        return self._ended is None

    @property
    def was_waited_on(self) -> bool:
        """Whether anybody awaited an answer when the connection ended."""
        return self._was_waited_on

    @property
    def cause_of_end(self) -> SarameyaError | None:
        """Why the connection ended, or None while it is open."""
        return self._ended

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Carry bytes until the connection ends. Never raises: the cause goes to those who wait."""
        try:
            with self._scope:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._write)
                    nursery.start_soon(self._read)
                    nursery.start_soon(self._watch)
                    nursery.start_soon(self._stay_known)
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
        """End the connection now; whoever waits gets `cause`."""
        self._end(cause or ConnectionLostError(f"{self.address}: the connection was closed"))
        self._scope.cancel()

    async def negotiate(self, timeout: float) -> None:
        """Ask which versions the broker serves (KIP-35). Must come before any other request.

        Raises ConnectionLostError, RequestTimeoutError, or ProtocolError where no Kafka broker answers.
        """
        version = CLIENT_VERSIONS[Api.API_VERSIONS].high
        try:
            answer = await self._exchange(_api_versions_request(version), timeout)
        except ResponseTooLargeError as error:  # no Kafka broker's: theirs to this are small
            raise ProtocolError(*error.args) from None
        if answer.error_code == ErrorCode.UNSUPPORTED_VERSION:
            answer = await self._exchange(_api_versions_request(0), timeout)
        if answer.error_code:
            raise ProtocolError(f"{self.address}: ApiVersions: {ErrorCode.describe(answer.error_code)}")
        self._versions = broker_versions((k.api_key, k.min_version, k.max_version) for k in answer.api_keys)

    async def authenticate(self, sasl: Sasl) -> None:
        """Tell the broker who we are, and again before it forgets it, for as long as the connection lives. Must come
        right behind `negotiate`.

        Raises AuthenticationError where it does not take us, TokenError where there is nothing to show it, and as
        `request` does.
        """
        self._session = SaslSession(sasl, self, partial(self._exchange, is_ours=True))
        await self._session.begin()
        self._is_known.set()

    async def _stay_known(self) -> None:
        await self._is_known.wait()
        assert self._session is not None
        await self._session.keep()

    @property
    def busy_until(self) -> float:
        """The last deadline of the requests that await their answer; now where none does."""
        return max((waiter.deadline for waiter in self._waiters.values()), default=trio.current_time())

    def version_of(self, api: Api) -> int:
        """The version in which `api` is spoken here. Raises UnsupportedVersionError."""
        return negotiate(api, self._versions)

    async def request(
        self, message: type[ApiMessage], timeout: float, *, newest: int | None = None, **fields: Any
    ) -> Any:
        """Send a request in the negotiated version, or an older one that is the `newest` to use here, and wait for its
        answer, `timeout` seconds at most. `message` is kafka-python's, or one of ours that is used as theirs are.

        Fields that the version does not know are left out. Cancellation gives the answer up, not the
        connection. Raises ConnectionLostError, RequestTimeoutError, ProtocolError, UnsupportedVersionError.
        """
        version = self.version_of(Api(message.API_KEY))
        if newest is not None:
            version = min(version, newest)
        if (session := self._session) is not None and session.gate is not None:
            timeout = await session.pass_gate(message.__name__, timeout)
        answer = await self._exchange(message[version](**fields), timeout)
        self._has_answered = True
        return answer

    async def _exchange(self, request: ApiMessage, timeout: float, *, is_ours: bool = False) -> Any:
        if self._ended is not None:
            raise self._ended.again()
        try:
            correlation_id = self._wire.send(request)
        except (struct.error, ValueError, TypeError) as error:
            raise ProtocolError(f"{type(request).__name__} cannot be encoded: {error}") from error
        began = trio.current_time()
        deadline = began + timeout
        waiter = self._waiters[correlation_id] = _Waiter(type(request).__name__, timeout, deadline, is_ours)
        if deadline < self._patience.deadline:
            self._patience.deadline = deadline
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
        """Send what is to be sent, or have it sent where that takes waiting."""
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
                # A caller that was cancelled has given its place up; its answer is dropped.
                if (waiter := self._waiters.get(correlation_id)) is not None:
                    waiter.answer = answer
                    waiter.event.set()

    @property
    def _hint(self) -> str:
        """What it may be where a broker answers which versions it speaks, and nothing else."""
        asked_only_that = self._versions and self._session is None and not self._has_answered
        return "; does its listener ask who we are (SASL)?" if asked_only_that and self._waiters else ""

    async def _watch(self) -> None:
        """End the connection once an answer is late. (A cancel scope a request would cost more than to encode it.)"""
        while True:
            waiting = [waiter for waiter in self._waiters.values() if not waiter.event.is_set()]
            late = [waiter for waiter in waiting if waiter.deadline <= trio.current_time()]
            if late:
                self.close(RequestTimeoutError(f"{self.address}: no answer to {late[0].what} in {late[0].timeout:g} s"))
            with trio.CancelScope(deadline=min((w.deadline for w in waiting), default=math.inf)) as self._patience:
                await trio.sleep_forever()

    def _end(self, cause: SarameyaError) -> None:
        if self._ended is None:
            self._ended = cause
            self._was_waited_on = not all(waiter.is_ours for waiter in self._waiters.values())
            for waiter in self._waiters.values():
                waiter.event.set()


def _api_versions_request(version: int) -> ApiMessage:
    return ApiVersionsRequest[version](client_software_name="sarameya", client_software_version=__version__)


def _first(group: BaseExceptionGroup[Any]) -> Any:
    """The first plain exception in a group: the ones behind it are the other task's echo."""
    found: Any = group
    while isinstance(found, BaseExceptionGroup):
        found = found.exceptions[0]
    return found
