"""What a connection may ask for before its broker knows who it is, and after it should have said so anew.

| state      | asked                        | does                                         | then             |
|------------|------------------------------|----------------------------------------------|------------------|
| UNKNOWN    | ApiVersions                  | lets it through                              | UNKNOWN          |
| UNKNOWN    | SaslHandshake                | the mechanism begins, if it is one that is   | CONVERSING       |
|            |                              | taken, or else says which are                | UNKNOWN          |
| CONVERSING | SaslAuthenticate             | the mechanism's next word; its last one      | KNOWN            |
|            |                              | or, where the client is not taken, why       | CLOSED           |
| KNOWN      | SaslHandshake, a second      | as UNKNOWN (KIP-368)                         | CONVERSING       |
|            | after the last one or later  |                                              |                  |
| KNOWN      | SaslHandshake, before its    | ILLEGAL_SASL_STATE                           | KNOWN            |
|            | time, and otherwise          |                                              |                  |
| KNOWN      | anything, before its time    | lets it through                              | KNOWN            |
| any        | anything else                | closes the connection                        | CLOSED           |
"""

from __future__ import annotations

import math
import random
from enum import Enum, auto
from typing import Any

import attrs
from kafka.protocol.sasl import SaslAuthenticateResponse, SaslHandshakeResponse

from sarameya.embedded.network.framing import ReceivedRequest
from sarameya.embedded.sasl import mechanisms
from sarameya.error_codes import ErrorCode
from sarameya.errors import ConfigError, ProtocolError
from sarameya.protocol.versions import Api

_BETWEEN_RENEWALS = 1.0
"""Seconds, at least."""


class _State(Enum):
    UNKNOWN = auto()
    CONVERSING = auto()
    KNOWN = auto()
    CLOSED = auto()


def _known(_: object, attribute: attrs.Attribute[Any], value: Any) -> None:
    if strange := set(value) - set(mechanisms.MECHANISMS):
        raise ConfigError(attribute.name, value, f"{sorted(strange)} are none of {', '.join(mechanisms.MECHANISMS)}")


@attrs.define(slots=True)
class SaslConfig:
    """Who a cluster takes, from whom it wants to know. May be changed while it runs: passwords and tokens are."""

    users: dict[str, str] = attrs.field(factory=dict)
    """Their passwords, by name: for PLAIN and SCRAM."""
    tokens: dict[str, str] = attrs.field(factory=dict)
    """Whose they are, by token: for OAUTHBEARER."""
    mechanisms: tuple[str, ...] = attrs.field(default=mechanisms.MECHANISMS, validator=_known)
    lifetime: float = math.inf
    """Seconds after which a connection has to say anew who it is (connections.max.reauth.ms)."""


@attrs.define(slots=True, eq=False)
class SaslServerAuthenticator:
    """One connection's."""

    _config: SaslConfig
    _rng: random.Random
    _state: _State = attrs.field(default=_State.UNKNOWN, init=False)
    _conversation: mechanisms.SaslExchange | None = attrs.field(default=None, init=False)
    _known_until: float = attrs.field(default=math.inf, init=False)
    _renewed_at: float = attrs.field(default=-math.inf, init=False)

    def take(self, request: ReceivedRequest, now: float) -> Any:
        """The answer to a request that is about who the client is; None for one that may go on to who else answers it.
        Raises ProtocolError upon which the connection is to be closed."""
        match self._state, request.api:
            case _State.UNKNOWN, Api.SASL_HANDSHAKE if request.version == 1:
                return self._begin(request.body.mechanism)
            case _State.KNOWN, Api.SASL_HANDSHAKE if request.version == 1 and self._may_renew(now):
                self._renewed_at = now
                return self._begin(request.body.mechanism)
            case _State.KNOWN, Api.SASL_HANDSHAKE if now < self._known_until:
                return SaslHandshakeResponse(
                    error_code=ErrorCode.ILLEGAL_SASL_STATE, mechanisms=list(self._config.mechanisms)
                )
            case _State.CONVERSING, Api.SASL_AUTHENTICATE:
                return self._go_on(request.body.auth_bytes, now)
            case _State.UNKNOWN, Api.API_VERSIONS:
                return None
            case _State.KNOWN, _ if now < self._known_until:
                return None
        raise ProtocolError(f"{request.api.name} while {self._state.name} (SASL)")

    def _may_renew(self, now: float) -> bool:
        """As Kafka's brokers have it: where sessions end, and not twice in a second."""
        return self._known_until < math.inf and now - self._renewed_at >= _BETWEEN_RENEWALS

    @property
    def is_closed(self) -> bool:
        """Whether nothing more is to be heard on the connection once the last answer is sent."""
        return self._state is _State.CLOSED

    def _begin(self, mechanism: str) -> Any:
        taken = list(self._config.mechanisms)
        if mechanism not in taken:
            return SaslHandshakeResponse(error_code=ErrorCode.UNSUPPORTED_SASL_MECHANISM, mechanisms=taken)
        self._conversation = self._converse(mechanism)
        next(self._conversation)
        self._state = _State.CONVERSING
        return SaslHandshakeResponse(error_code=ErrorCode.NONE, mechanisms=taken)

    def _converse(self, mechanism: str) -> mechanisms.SaslExchange:
        match mechanism:
            case "PLAIN":
                return mechanisms.plain(self._config.users)
            case "OAUTHBEARER":
                return mechanisms.oauthbearer(self._config.tokens)
        return mechanisms.scram(mechanism, self._config.users, f"{self._rng.getrandbits(128):032x}")

    def _go_on(self, said: bytes, now: float) -> Any:
        assert self._conversation is not None
        try:
            return _answer(self._conversation.send(said))
        except mechanisms.SaslAuthenticationFailed as denied:
            self._state = _State.CLOSED
            return _answer(b"", str(denied))
        except StopIteration as over:
            welcome: mechanisms.SaslSuccess = over.value
            self._state, self._known_until = _State.KNOWN, now + self._config.lifetime
            return _answer(welcome.word, lifetime=self._config.lifetime)


def _answer(word: bytes, refusal: str | None = None, lifetime: float = math.inf) -> Any:
    return SaslAuthenticateResponse(
        error_code=ErrorCode.NONE if refusal is None else ErrorCode.SASL_AUTHENTICATION_FAILED,
        error_message=refusal,
        auth_bytes=word,
        session_lifetime_ms=0 if math.isinf(lifetime) else math.ceil(lifetime * 1000),
    )
