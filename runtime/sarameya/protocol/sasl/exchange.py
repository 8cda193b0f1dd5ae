"""The requests of one SASL authentication (KIP-152: SaslAuthenticate requests after a SaslHandshake of version 1).

| sent             | response                           | next                              |
|------------------|------------------------------------|-----------------------------------|
| SaslHandshake    | UNSUPPORTED_SASL_MECHANISM         | failed: the broker names its own  |
|                  | ILLEGAL_SASL_STATE                 | failed: it does not authenticate; |
|                  |                                    | on renewal: the connection closes |
|                  | any other error                    | failed                            |
|                  | no error                           | SaslAuthenticate, first message   |
| SaslAuthenticate | SASL_AUTHENTICATION_FAILED, others | failed, with the broker's message |
|                  | no error, not complete             | SaslAuthenticate, next message,   |
|                  |                                    | at most MAX_MESSAGES of them      |
|                  | no error, complete                 | done, with the session's lifetime |
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import attrs

from sarameya.error_codes import ErrorCode
from sarameya.errors import AuthenticationError, ConnectionLostError
from sarameya.protocol.sasl.mechanisms import Mechanism, RefusedError

MAX_MESSAGES = 8
"""Bound for the messages of one authentication. No mechanism needs as many; a faulty broker could ask for ever."""

_CORRECT_PASSWORD = "correct sasl_username and sasl_password"
_REMEDIES: Mapping[str, str] = {
    "PLAIN": _CORRECT_PASSWORD,
    "SCRAM-SHA-256": _CORRECT_PASSWORD,
    "SCRAM-SHA-512": _CORRECT_PASSWORD,
    "OAUTHBEARER": "check the token from sasl_token: is it expired, or for another audience or issuer?",
    "GSSAPI": "check that the broker's keytab is for sasl_kerberos_service on the host name of its listener",
    "AWS_MSK_IAM": "allow kafka-cluster:Connect for these credentials, in the cluster's own region",
}
"""Mechanism -> advice after a refusal."""


@attrs.define(slots=True)
class Exchange:
    """SASL authentication in progress."""

    name: str
    """Name of the mechanism."""
    user: str
    """User name of the client; empty if the mechanism uses no user name."""
    address: str
    """Address of the broker."""
    _mechanism: Mechanism = attrs.field(repr=False)
    next_message: bytes | None = attrs.field(default=None, init=False, repr=False)
    """The next message to send; None before the handshake, and when the authentication is complete."""
    _messages: int = attrs.field(default=0, init=False, repr=False)
    lifetime: float = attrs.field(default=math.inf, init=False)
    """Seconds until the broker requires a renewal (KIP-368)."""

    def receive_handshake(self, answer: Any, *, is_renewal: bool = False) -> None:
        """Process the broker's response to the handshake.

        Args:
            answer: The SaslHandshakeResponse.
            is_renewal: True if the connection has been authenticated before.

        Raises:
            AuthenticationError: The broker refuses.
            ConnectionLostError: The broker does not renew this connection's session.
        """
        match answer.error_code:
            case ErrorCode.NONE:
                self.next_message = self._next(self._mechanism.first)
            case ErrorCode.ILLEGAL_SASL_STATE if is_renewal:
                raise ConnectionLostError(f"{self.address}: the broker does not renew this connection's session")
            case ErrorCode.UNSUPPORTED_SASL_MECHANISM:
                supported = ", ".join(sorted(answer.mechanisms)) or "none"
                raise self._refused(
                    f"the broker supports {supported}, not {self.name}", "set sasl_mechanism to one of these"
                )
            case ErrorCode.ILLEGAL_SASL_STATE:
                raise self._refused(
                    "its listener does not authenticate clients",
                    "set security_protocol to PLAINTEXT or SSL, or use another port",
                )
            case code:
                raise self._refused(f"SaslHandshake: {ErrorCode.describe(code)}")

    def is_slow(self, answer: Any) -> bool:
        """Return whether `receive` takes long for this response: call it in a thread then."""
        return not answer.error_code and self._mechanism.is_slow(answer.auth_bytes or b"")

    def receive(self, answer: Any) -> None:
        """Process the broker's response to a message (a SaslAuthenticateResponse). Raises AuthenticationError."""
        if answer.error_code:
            reason = answer.error_message or ErrorCode.describe(answer.error_code)
            raise self._refused(f"{self._identity} was refused: {reason}", _REMEDIES.get(self.name, ""))
        self.next_message = self._next(partial(self._mechanism.answer, answer.auth_bytes or b""))
        if self.next_message is None and answer.session_lifetime_ms:
            self.lifetime = answer.session_lifetime_ms / 1000

    def _next(self, make: Callable[[], bytes | None]) -> bytes | None:
        """Return the mechanism's next message, None if it needs no more. Raises AuthenticationError."""
        try:
            message = make()
        except RefusedError as error:
            raise self._refused(f"{self._identity}: {error}") from error
        self._messages += message is not None
        if self._messages > MAX_MESSAGES:
            raise self._refused(f"{self._identity}: the broker did not finish after {MAX_MESSAGES} messages")
        return message

    @property
    def _identity(self) -> str:
        return f"{self.name} as {self.user!r}" if self.user else self.name

    def _refused(self, problem: str, remedy: str = "") -> AuthenticationError:
        return AuthenticationError(self.address, problem, remedy)
