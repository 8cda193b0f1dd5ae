"""The state machine that authenticates one connection, as Kafka's SaslServerAuthenticator does.

| state           | request                        | effect                                         | next state      |
|-----------------|--------------------------------|------------------------------------------------|-----------------|
| UNAUTHENTICATED | ApiVersions                    | passed to `apis`                               | UNAUTHENTICATED |
| UNAUTHENTICATED | SaslHandshake                  | starts the exchange of a supported mechanism,  | AUTHENTICATING  |
|                 |                                | or else lists the supported ones               | UNAUTHENTICATED |
| AUTHENTICATING  | SaslAuthenticate               | the next message of the exchange; the last one | AUTHENTICATED   |
|                 |                                | or, if authentication fails, the reason        | CLOSED          |
| AUTHENTICATED   | SaslHandshake, if sessions     | as UNAUTHENTICATED (re-authentication,         | AUTHENTICATING  |
|                 | have a lifetime, at least 1 s  | KIP-368)                                       |                 |
|                 | after the last re-authenti-    |                                                |                 |
|                 | cation                         |                                                |                 |
| AUTHENTICATED   | any other SaslHandshake before | ILLEGAL_SASL_STATE                             | AUTHENTICATED   |
|                 | the session ends               |                                                |                 |
| AUTHENTICATED   | any before the session ends    | passed to `apis`                               | AUTHENTICATED   |
| any             | any other                      | closes the connection                          | CLOSED          |
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

_REAUTHENTICATION_INTERVAL = 1.0
"""Least seconds between two re-authentications."""


class _State(Enum):
    UNAUTHENTICATED = auto()
    AUTHENTICATING = auto()
    AUTHENTICATED = auto()
    CLOSED = auto()


def _check_mechanisms(_: object, attribute: attrs.Attribute[Any], value: Any) -> None:
    if unknown := set(value) - set(mechanisms.MECHANISMS):
        supported = ", ".join(mechanisms.MECHANISMS)
        raise ConfigError(attribute.name, value, f"{sorted(unknown)} are not supported (supported: {supported})")


@attrs.define(slots=True)
class SaslConfig:
    """The clients that a cluster accepts. The settings may be changed while the cluster runs."""

    users: dict[str, str] = attrs.field(factory=dict)
    """Password of each user, for PLAIN and SCRAM."""
    tokens: dict[str, str] = attrs.field(factory=dict)
    """User of each token, for OAUTHBEARER."""
    mechanisms: tuple[str, ...] = attrs.field(default=mechanisms.MECHANISMS, validator=_check_mechanisms)
    """Mechanisms that a client may choose."""
    lifetime: float = math.inf
    """Seconds after which a connection must re-authenticate (connections.max.reauth.ms)."""


@attrs.define(slots=True, eq=False)
class SaslServerAuthenticator:
    """Authenticates the client of one connection."""

    _config: SaslConfig
    _rng: random.Random
    _state: _State = attrs.field(default=_State.UNAUTHENTICATED, init=False)
    _exchange: mechanisms.SaslExchange | None = attrs.field(default=None, init=False)
    _authenticated_until: float = attrs.field(default=math.inf, init=False)
    _reauthenticated_at: float = attrs.field(default=-math.inf, init=False)

    def handle(self, request: ReceivedRequest, now: float) -> Any:
        """Return the response to a SASL request; None for a request that `apis` answers.

        Raises:
            ProtocolError: The request is not allowed now. Close the connection.
        """
        match self._state, request.api:
            case _State.UNAUTHENTICATED, Api.SASL_HANDSHAKE if request.version == 1:
                return self._start_exchange(request.body.mechanism)
            case _State.AUTHENTICATED, Api.SASL_HANDSHAKE if request.version == 1 and self._may_reauthenticate(now):
                self._reauthenticated_at = now
                return self._start_exchange(request.body.mechanism)
            case _State.AUTHENTICATED, Api.SASL_HANDSHAKE if now < self._authenticated_until:
                return SaslHandshakeResponse(
                    error_code=ErrorCode.ILLEGAL_SASL_STATE, mechanisms=list(self._config.mechanisms)
                )
            case _State.AUTHENTICATING, Api.SASL_AUTHENTICATE:
                return self._continue_exchange(request.body.auth_bytes, now)
            case _State.UNAUTHENTICATED, Api.API_VERSIONS:
                return None
            case _State.AUTHENTICATED, _ if now < self._authenticated_until:
                return None
        raise ProtocolError(f"{request.api.name} while {self._state.name} (SASL)")

    def _may_reauthenticate(self, now: float) -> bool:
        """Return True if sessions have a lifetime and the last re-authentication is a second old, as in Kafka."""
        return self._authenticated_until < math.inf and now - self._reauthenticated_at >= _REAUTHENTICATION_INTERVAL

    @property
    def is_closed(self) -> bool:
        """True if the connection must be closed after the last response."""
        return self._state is _State.CLOSED

    def _start_exchange(self, mechanism: str) -> Any:
        supported = list(self._config.mechanisms)
        if mechanism not in supported:
            return SaslHandshakeResponse(error_code=ErrorCode.UNSUPPORTED_SASL_MECHANISM, mechanisms=supported)
        self._exchange = self._new_exchange(mechanism)
        next(self._exchange)
        self._state = _State.AUTHENTICATING
        return SaslHandshakeResponse(error_code=ErrorCode.NONE, mechanisms=supported)

    def _new_exchange(self, mechanism: str) -> mechanisms.SaslExchange:
        match mechanism:
            case "PLAIN":
                return mechanisms.plain(self._config.users)
            case "OAUTHBEARER":
                return mechanisms.oauthbearer(self._config.tokens)
        return mechanisms.scram(mechanism, self._config.users, f"{self._rng.getrandbits(128):032x}")

    def _continue_exchange(self, message: bytes, now: float) -> Any:
        assert self._exchange is not None
        try:
            return _response(self._exchange.send(message))
        except mechanisms.SaslAuthenticationFailed as failure:
            self._state = _State.CLOSED
            return _response(b"", str(failure))
        except StopIteration as end:
            success: mechanisms.SaslSuccess = end.value
            self._state, self._authenticated_until = _State.AUTHENTICATED, now + self._config.lifetime
            return _response(success.message, lifetime=self._config.lifetime)


def _response(message: bytes, error: str | None = None, lifetime: float = math.inf) -> Any:
    return SaslAuthenticateResponse(
        error_code=ErrorCode.NONE if error is None else ErrorCode.SASL_AUTHENTICATION_FAILED,
        error_message=error,
        auth_bytes=message,
        session_lifetime_ms=0 if math.isinf(lifetime) else math.ceil(lifetime * 1000),
    )
