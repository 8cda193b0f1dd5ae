"""One connection's standing with its broker, by SASL: who we are, told at first, and anew before it is forgotten.

Owns when that is told again (KIP-368), and that nobody else sends anything meanwhile; the words are `protocol/sasl`'s,
what is shown in them `authentication`'s. Brokers take nothing else while they are told, close what is used beyond its
session's end, and take a second renewal a second after the first at the earliest (ILLEGAL_SASL_STATE, says Kafka's):

    told          85 to 95 % of the session        its end
    |-------------------------|----------------------|
                              renewed                            where it may be
                              nobody sends, then renewed         where the last one has just been
                              asked anew, by the backoff, to    where there is nothing to show
                              just before the end: then the
                              connection ends
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
from sarameya.net.authentication import Authenticator, authenticator_of
from sarameya.observe import Observer, RenewalFailed
from sarameya.protocol.backoff import Backoff
from sarameya.protocol.sasl.exchange import Exchange
from sarameya.protocol.versions import Api

_RENEWED_AT = (0.85, 0.95)
"""In these parts of the time that is left, as Kafka's own clients do (KIP-368); spread, for brokers' sake."""
_RENEWAL_TIMEOUT = 30.0
"""Seconds."""
_BETWEEN_RENEWALS = 1.5
"""Seconds from one authentication's beginning to the next one's, at least."""
_ASKED_AGAIN = 0.25
"""After this part of the time that is left, where there was nothing to show: some tries, however long it is."""
_BEFORE_THE_END = (0.5, 0.02)
"""The last try is so many seconds before a session's end, or this part of it."""

_ROUNDING = 1e-6
"""Seconds."""


@attrs.frozen(slots=True)
class Sasl:
    """How a client is known to its brokers."""

    authenticator: Authenticator
    patience: float
    """Seconds within which there must be something to show, and in which a broker must have taken it."""
    backoff: Backoff
    observer: Observer


def sasl_of(config: Config, observer: Observer) -> Sasl | None:
    """By the options; None where nobody asks who we are. Raises ConfigError where a package is missing for it."""
    authenticator = authenticator_of(config)
    if authenticator is None:
        return None
    return Sasl(authenticator, config.connect_timeout, Backoff.of(config), observer)


class Asking(Protocol):
    """A connection, as it is used here."""

    @property
    def address(self) -> str: ...

    @property
    def busy_until(self) -> float:
        """The last of the deadlines of what is on its way."""

    def version_of(self, api: Api) -> int: ...


Ask = Callable[[ApiMessage, float], Awaitable[Any]]


class SaslSession:
    """A connection's, for as long as it lives. `ask` sends a request past all others that wait."""

    def __init__(self, sasl: Sasl, connection: Asking, ask: Ask) -> None:
        self._sasl = sasl
        self._connection = connection
        self._ask = ask
        self.gate: trio.Event | None = None
        """What others are to wait for before they send; None mostly."""
        self._ends = math.inf
        self._last_try = math.inf
        self._renewable = -math.inf

    async def begin(self) -> None:
        """Raises AuthenticationError where the broker does not take us, TokenError where there is nothing to show it,
        and as requests do."""
        exchange = await self._something_to_show(self._sasl.patience)
        await self._tell(exchange, trio.current_time() + self._sasl.patience, anew=False)

    async def keep(self) -> None:
        """Tell it anew, each time well before the session's end. Raises as `begin`, TokenError where there was nothing
        to show until then, and ConnectionLostError where the broker takes no renewal."""
        while True:
            left = self._ends - trio.current_time()
            await trio.sleep(max(left * random.uniform(*_RENEWED_AT), 0.0))
            failures = 0
            while not await self._renewed(failures):
                failures += 1

    async def pass_gate(self, what: str, timeout: float) -> float:
        """Wait until others may send; what is left of the time. Raises RequestTimeoutError where nothing is."""
        deadline = trio.current_time() + timeout
        while self.gate is not None:
            with trio.move_on_at(deadline) as scope:
                await self.gate.wait()
            if scope.cancelled_caught:
                raise RequestTimeoutError(
                    f"{self._connection.address}: {what} waited for {timeout:g} s to be sent: the broker is being told "
                    "anew who we are"
                )
        return max(deadline - trio.current_time(), 0.0)

    async def _renewed(self, failures: int) -> bool:
        """Whether the broker could be told anew; if not, this has waited for the next time to try."""
        try:
            with ExitStack() as stack:
                if trio.current_time() < self._renewable:
                    # Whoever sent anything from the session's end on would lose the connection.
                    stack.enter_context(self._alone())
                    await trio.sleep_until(self._renewable)
                exchange = await self._something_to_show(self._patience_of_renewal())
                # Whatever is on its way is answered first, and may be held for long: a join is.
                await self._tell(exchange, self._connection.busy_until + _RENEWAL_TIMEOUT, anew=True)
        except TokenError as error:
            now = trio.current_time()
            left = max(self._ends - now, 0.0)
            self._sasl.observer(RenewalFailed(self._connection.address, left, str(error)))
            # A wait that was to end there may end a rounding sooner.
            if now >= self._last_try - _ROUNDING:
                raise
            wait = max(self._sasl.backoff.delay(failures + 1), left * _ASKED_AGAIN)
            await trio.sleep_until(min(now + wait, self._last_try))
            return False
        return True

    def _patience_of_renewal(self) -> float:
        """There is time until the connection would have to end for want of it; unless that is over anyway."""
        now = trio.current_time()
        ends = next((at - now for at in (self._last_try, self._ends) if at > now), math.inf)
        return min(self._sasl.patience, ends)

    async def _something_to_show(self, within: float) -> Exchange:
        with trio.move_on_after(within):
            return await self._sasl.authenticator.begin(self._connection.address)
        raise TokenError(f"{self._sasl.authenticator.source} gave nothing within {within:.3g} s")

    async def _tell(self, exchange: Exchange, deadline: float, *, anew: bool) -> None:
        version_of = self._connection.version_of
        handshake = SaslHandshakeRequest[version_of(Api.SASL_HANDSHAKE)]
        words = SaslAuthenticateRequest[version_of(Api.SASL_AUTHENTICATE)]
        with self._alone():
            answer = await self._ask(handshake(mechanism=exchange.name), deadline - trio.current_time())
            # The broker may have read it just now: whatever was before it has been answered first.
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
            # By the broker's clock it began when that had come, which is no sooner.
            self._ends = said + exchange.lifetime
            seconds, part = _BEFORE_THE_END
            self._last_try = self._ends - min(seconds, part * exchange.lifetime)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Nobody else may send for the length of a block."""
        if self.gate is not None:
            yield
            return
        self.gate = trio.Event()
        try:
            yield
        finally:
            self.gate.set()
            self.gate = None
