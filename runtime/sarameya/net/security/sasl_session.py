"""SASL session of one connection: authentication at the start, and renewal before the session expires (KIP-368).

Schedules the renewals, and keeps all other requests back meanwhile. `protocol/sasl` has the messages, `authentication`
the credentials. During an authentication brokers accept nothing else. They close connections that are used after the
session's end. They accept a second renewal no sooner than a second after the first (Kafka: ILLEGAL_SASL_STATE).

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
"""Fractions of the remaining time between which a renewal takes place, as in Kafka's own clients (KIP-368).

Spread for the brokers' sake.
"""
_RENEWAL_TIMEOUT = 30.0
"""Seconds."""
_BETWEEN_RENEWALS = 1.5
"""Seconds from the start of one authentication to the next, at least."""
_ASKED_AGAIN = 0.25
"""Fraction of the remaining time before the next request for credentials: allows some attempts, however long it is."""
_BEFORE_THE_END = (0.5, 0.02)
"""Time of the last attempt before a session's end: seconds, and fraction of the session."""

_ROUNDING = 1e-6
"""Seconds."""


@attrs.frozen(slots=True)
class Sasl:
    """Authentication settings of a client."""

    authenticator: Authenticator
    patience: float
    """Seconds for getting credentials, and for the broker to accept them."""
    backoff: Backoff
    observer: Observer


def sasl_of(config: Config, observer: Observer) -> Sasl | None:
    """Return the settings of the options, or None if they use no SASL. Raises ConfigError if a package is missing."""
    authenticator = authenticator_of(config)
    if authenticator is None:
        return None
    return Sasl(authenticator, config.connect_timeout, Backoff.of(config), observer)


class SaslConnection(Protocol):
    """The parts of a connection that are used here."""

    @property
    def address(self) -> str: ...

    @property
    def busy_until(self) -> float:
        """Last deadline of the pending requests."""

    def version_of(self, api: Api) -> int: ...


SendRequest = Callable[[ApiMessage, float], Awaitable[Any]]


class SaslSession:
    """Session of one connection. `ask` sends a request ahead of all others that wait."""

    def __init__(self, sasl: Sasl, connection: SaslConnection, ask: SendRequest) -> None:
        self._sasl = sasl
        self._connection = connection
        self._ask = ask
        self.gate: trio.Event | None = None
        """Event that other requests wait for before they are sent; usually None."""
        self._ends = math.inf
        self._last_try = math.inf
        self._renewable = -math.inf

    async def begin(self) -> None:
        """Authenticate. Raises as requests do, and AuthenticationError or TokenError."""
        exchange = await self._something_to_show(self._sasl.patience)
        await self._authenticate(exchange, trio.current_time() + self._sasl.patience, anew=False)

    async def keep(self) -> None:
        """Renew the session, each time well before its end. Runs until cancelled.

        Raises as `begin` does; TokenError if no credentials were available in time, and ConnectionLostError if the
        broker accepts no renewal.
        """
        while True:
            left = self._ends - trio.current_time()
            await trio.sleep(max(left * random.uniform(*_RENEWED_AT), 0.0))
            failures = 0
            while not await self._renewed(failures):
                failures += 1

    async def pass_gate(self, what: str, timeout: float) -> float:
        """Wait until other requests may be sent. Return the rest of `timeout`. Raises RequestTimeoutError."""
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

    async def _renewed(self, failures: int) -> bool:
        """Renew the session. Return False after a failure, once the time of the next attempt has come."""
        try:
            with ExitStack() as stack:
                if trio.current_time() < self._renewable:
                    # A request after the session's end would lose the connection.
                    stack.enter_context(self._alone())
                    await trio.sleep_until(self._renewable)
                exchange = await self._something_to_show(self._patience_of_renewal())
                # Pending requests are answered first, and may be held for long, as joins are.
                await self._authenticate(exchange, self._connection.busy_until + _RENEWAL_TIMEOUT, anew=True)
        except TokenError as error:
            now = trio.current_time()
            left = max(self._ends - now, 0.0)
            self._sasl.observer(RenewalFailed(self._connection.address, left, str(error)))
            # A wait until that time may end sooner by a rounding error.
            if now >= self._last_try - _ROUNDING:
                raise
            wait = max(self._sasl.backoff.delay(failures + 1), left * _ASKED_AGAIN)
            await trio.sleep_until(min(now + wait, self._last_try))
            return False
        return True

    def _patience_of_renewal(self) -> float:
        """Return the seconds for getting credentials: until the last attempt or the session's end."""
        now = trio.current_time()
        ends = next((at - now for at in (self._last_try, self._ends) if at > now), math.inf)
        return min(self._sasl.patience, ends)

    async def _something_to_show(self, within: float) -> Exchange:
        with trio.move_on_after(within):
            return await self._sasl.authenticator.begin(self._connection.address)
        raise TokenError(f"{self._sasl.authenticator.source} returned nothing within {within:.3g} s")

    async def _authenticate(self, exchange: Exchange, deadline: float, *, anew: bool) -> None:
        version_of = self._connection.version_of
        handshake = SaslHandshakeRequest[version_of(Api.SASL_HANDSHAKE)]
        words = SaslAuthenticateRequest[version_of(Api.SASL_AUTHENTICATE)]
        with self._alone():
            answer = await self._ask(handshake(mechanism=exchange.name), deadline - trio.current_time())
            # The broker may have read it just now: it has answered all earlier requests first.
            self._renewable = trio.current_time() + _BETWEEN_RENEWALS
            exchange.handshaken(answer, anew=anew)
            said = trio.current_time()
            while (word := exchange.next_word) is not None:
                said = trio.current_time()
                answer = await self._ask(words(auth_bytes=word), max(deadline - said, 0.0))
                if exchange.is_slow(answer):
                    await trio.to_thread.run_sync(exchange.authenticated, answer)
                else:
                    exchange.authenticated(answer)
            # By the broker's clock the session started when the message arrived, which is no sooner.
            self._ends = said + exchange.lifetime
            seconds, part = _BEFORE_THE_END
            self._last_try = self._ends - min(seconds, part * exchange.lifetime)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Run a block during which no other requests are sent."""
        if self.gate is not None:
            yield
            return
        self.gate = trio.Event()
        try:
            yield
        finally:
            self.gate.set()
            self.gate = None
