"""SASL session of one connection: authentication at the start, and renewal before the session expires (KIP-368).

This module schedules the renewals, and holds all other requests back during an authentication, since brokers then
accept nothing else. Brokers close a connection that is used after the session's end, and refuse a renewal within a
second of the last one (ILLEGAL_SASL_STATE). `protocol/sasl` has the messages, `authentication` the credentials.

    authenticated     85 to 95 % of the session     its end
    |-----------------------|--------------------------|
                            renewed                       if possible
                            requests held, then renewed   if the last renewal was just before
                            retried, by the backoff, to   if no credentials are available
                            just before the end: then
                            the connection ends
"""

from __future__ import annotations

import math
import random
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, Protocol

import attrs
import trio
from kafka.protocol.api_message import ApiMessage
from kafka.protocol.sasl import SaslAuthenticateRequest, SaslHandshakeRequest

from sarameya.config import Config
from sarameya.errors import RequestTimeoutError, TokenError
from sarameya.net.security.authentication import Authenticator, authenticator_of
from sarameya.observe import Observer, RenewalFailed
from sarameya.protocol.backoff import Backoff
from sarameya.protocol.sasl.exchange import Exchange
from sarameya.protocol.versions import Api

_RENEWED_AT = (0.85, 0.95)
"""Range of the renewal's time, as a fraction of the remaining session, as in Kafka's own clients (KIP-368).

The time is random, so that a broker does not get the renewals of many connections at once.
"""
_RENEWAL_TIMEOUT = 30.0
"""Seconds."""
_BETWEEN_RENEWALS = 1.5
"""Minimal seconds from the start of one authentication to the next."""
_RETRY_FRACTION = 0.25
"""Minimal wait before the next attempt to get credentials, as a fraction of the remaining session.

With a fraction the number of attempts does not depend on the length of the session.
"""
_LAST_ATTEMPT_BEFORE_END = (0.5, 0.02)
"""Time of the last attempt before the session's end: seconds, or a fraction of the session if that is less."""

_ROUNDING = 1e-6
"""Seconds by which a wait may end too early."""


@attrs.frozen(slots=True)
class Sasl:
    """Authentication settings of a client."""

    authenticator: Authenticator
    timeout: float
    """Seconds for getting the credentials; the broker has as many to accept them."""
    backoff: Backoff
    observer: Observer


def sasl_of(config: Config, observer: Observer) -> Sasl | None:
    """Return the settings of the options, or None if they use no SASL. Raises ConfigError if a package is missing."""
    authenticator = authenticator_of(config)
    if authenticator is None:
        return None
    return Sasl(authenticator, config.connect_timeout, Backoff.of(config), observer)


class SaslConnection(Protocol):
    """Interface of `Connection` that a session uses."""

    @property
    def address(self) -> str: ...

    @property
    def busy_until(self) -> float:
        """Latest deadline of the pending requests."""

    def version_of(self, api: Api) -> int: ...


SendRequest = Callable[[ApiMessage, float], Awaitable[Any]]
"""Sends a request with a timeout in seconds, and returns the response."""


class SaslSession:
    """SASL session of one connection.

    Args:
        sasl: The client's settings.
        connection: The connection.
        send: Sends a request past the gate that other requests wait at.
    """

    def __init__(self, sasl: Sasl, connection: SaslConnection, send: SendRequest) -> None:
        self._sasl = sasl
        self._connection = connection
        self._send = send
        self.gate: trio.Event | None = None
        """Event that other requests wait for before they are sent. None if they may be sent at once."""
        self._ends_at = math.inf
        self._last_attempt_at = math.inf
        self._renewable_at = -math.inf
        """Time from which the broker accepts the next renewal."""

    async def begin(self) -> None:
        """Authenticate. Raises as requests do, and AuthenticationError or TokenError."""
        exchange = await self._get_credentials(self._sasl.timeout)
        await self._authenticate(exchange, trio.current_time() + self._sasl.timeout, is_renewal=False)

    async def keep(self) -> None:
        """Renew the session each time before it expires. Runs until cancelled.

        Raises as `begin` does: TokenError if no credentials were available in time. Raises ConnectionLostError if the
        broker accepts no renewal.
        """
        while True:
            left = self._ends_at - trio.current_time()
            await trio.sleep(max(left * random.uniform(*_RENEWED_AT), 0.0))
            failures = 0
            while not await self._renew(failures):
                failures += 1

    async def pass_gate(self, what: str, timeout: float) -> float:
        """Wait until a request may be sent.

        Args:
            what: The request, for the error.
            timeout: Seconds that the request has, including this wait.

        Returns:
            The rest of `timeout`.

        Raises:
            RequestTimeoutError: The authentication took longer than that.
        """
        deadline = trio.current_time() + timeout
        while self.gate is not None:
            with trio.move_on_at(deadline) as scope:
                await self.gate.wait()
            if scope.cancelled_caught:
                raise RequestTimeoutError(
                    f"{self._connection.address}: {what} waited for {timeout:g} s to be sent, while the client "
                    "re-authenticates"
                )
        return max(deadline - trio.current_time(), 0.0)

    async def _renew(self, failures: int) -> bool:
        """Try to renew the session. Return False if no credentials were available, after the wait before a retry."""
        try:
            with ExitStack() as stack:
                if trio.current_time() < self._renewable_at:
                    # The session may end during this wait, and the broker closes a connection that is used after that.
                    stack.enter_context(self._hold_other_requests())
                    await trio.sleep_until(self._renewable_at)
                exchange = await self._get_credentials(self._renewal_timeout())
                # The broker answers pending requests first, and holds some of them (joins) for long.
                deadline = self._connection.busy_until + _RENEWAL_TIMEOUT
                await self._authenticate(exchange, deadline, is_renewal=True)
        except TokenError as error:
            now = trio.current_time()
            left = max(self._ends_at - now, 0.0)
            self._sasl.observer(RenewalFailed(self._connection.address, left, str(error)))
            if now >= self._last_attempt_at - _ROUNDING:
                raise
            wait = max(self._sasl.backoff.delay(failures + 1), left * _RETRY_FRACTION)
            await trio.sleep_until(min(now + wait, self._last_attempt_at))
            return False
        return True

    def _renewal_timeout(self) -> float:
        """Return the seconds for getting credentials: until the last attempt or, during that, the session's end."""
        now = trio.current_time()
        left = next((at - now for at in (self._last_attempt_at, self._ends_at) if at > now), math.inf)
        return min(self._sasl.timeout, left)

    async def _get_credentials(self, timeout: float) -> Exchange:
        with trio.move_on_after(timeout):
            return await self._sasl.authenticator.begin(self._connection.address)
        raise TokenError(f"{self._sasl.authenticator.source} returned nothing within {timeout:.3g} s")

    async def _authenticate(self, exchange: Exchange, deadline: float, *, is_renewal: bool) -> None:
        version_of = self._connection.version_of
        handshake = SaslHandshakeRequest[version_of(Api.SASL_HANDSHAKE)]
        authenticate = SaslAuthenticateRequest[version_of(Api.SASL_AUTHENTICATE)]
        with self._hold_other_requests():
            answer = await self._send(handshake(mechanism=exchange.name), deadline - trio.current_time())
            # Counted from the response: the broker may have read the handshake just now, after all earlier requests.
            self._renewable_at = trio.current_time() + _BETWEEN_RENEWALS
            exchange.receive_handshake(answer, is_renewal=is_renewal)
            sent_at = trio.current_time()
            while (message := exchange.next_message) is not None:
                sent_at = trio.current_time()
                answer = await self._send(authenticate(auth_bytes=message), max(deadline - sent_at, 0.0))
                if exchange.is_slow(answer):
                    await trio.to_thread.run_sync(exchange.receive, answer)
                else:
                    exchange.receive(answer)
            # The broker starts the session when the last message arrives, so never before `sent_at`.
            self._ends_at = sent_at + exchange.lifetime
            seconds, fraction = _LAST_ATTEMPT_BEFORE_END
            self._last_attempt_at = self._ends_at - min(seconds, fraction * exchange.lifetime)

    @contextmanager
    def _hold_other_requests(self) -> Iterator[None]:
        """Run a block during which no other requests are sent. Such blocks may be nested."""
        if self.gate is not None:
            yield
            return
        self.gate = trio.Event()
        try:
            yield
        finally:
            self.gate.set()
            self.gate = None
