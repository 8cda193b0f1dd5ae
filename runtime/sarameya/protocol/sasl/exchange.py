"""One authentication, request by request (KIP-152: in SaslAuthenticate requests, after a SaslHandshake of version 1).

| sent             | answered with                      | next                             |
|------------------|------------------------------------|----------------------------------|
| SaslHandshake    | UNSUPPORTED_SASL_MECHANISM         | refused: what the broker takes   |
|                  | ILLEGAL_SASL_STATE                 | refused: it asks nobody; anew,   |
|                  |                                    | the connection is at its end     |
|                  | any other error                    | refused                          |
|                  | no error                           | SaslAuthenticate, the first word |
| SaslAuthenticate | SASL_AUTHENTICATION_FAILED, others | refused, in the broker's words   |
|                  | no error, more to say              | SaslAuthenticate, the next word, |
|                  |                                    | MOST_WORDS of them at most       |
|                  | no error, all said                 | done: for how long               |
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

MOST_WORDS = 8
"""More than any mechanism takes: a broker that asks for more would never end."""

_BY_PASSWORD = "correct sasl_username and sasl_password"
_REMEDIES: Mapping[str, str] = {
    "PLAIN": _BY_PASSWORD,
    "SCRAM-SHA-256": _BY_PASSWORD,
    "SCRAM-SHA-512": _BY_PASSWORD,
    "OAUTHBEARER": "look at what sasl_token gives: expired, for another audience or issuer?",
    "GSSAPI": "look whether the broker's keytab is that of sasl_kerberos_service on the host that its listener names",
    "AWS_MSK_IAM": "allow kafka-cluster:Connect to these credentials, in the cluster's own region",
}
"""What to do about a refusal, by mechanism."""


@attrs.define(slots=True)
class Exchange:
    """An authentication that is under way. `next_word` is what is to be sent, None when it is done."""

    name: str
    """The mechanism's."""
    user: str
    """Who we say we are; empty where a mechanism has its own way to say so."""
    address: str
    _mechanism: Mechanism = attrs.field(repr=False)
    next_word: bytes | None = attrs.field(default=None, init=False, repr=False)
    _words: int = attrs.field(default=0, init=False, repr=False)
    lifetime: float = attrs.field(default=math.inf, init=False)
    """Seconds after which the broker wants to know again (KIP-368)."""

    def handshaken(self, answer: Any, *, anew: bool = False) -> None:
        """The broker's answer to the handshake, on a connection on which it knew us before (`anew`) or not. Raises
        AuthenticationError, and ConnectionLostError where it takes no renewal on this connection."""
        match answer.error_code:
            case ErrorCode.NONE:
                self.next_word = self._said(self._mechanism.first)
            case ErrorCode.ILLEGAL_SASL_STATE if anew:
                raise ConnectionLostError(f"{self.address}: the broker does not renew this connection's session")
            case ErrorCode.UNSUPPORTED_SASL_MECHANISM:
                takes = ", ".join(sorted(answer.mechanisms)) or "none"
                raise self._refused(f"it does not take {self.name}, but {takes}", "set sasl_mechanism to what it takes")
            case ErrorCode.ILLEGAL_SASL_STATE:
                raise self._refused(
                    "its listener asks nobody who they are",
                    "set security_protocol to PLAINTEXT or SSL, or use another port",
                )
            case code:
                raise self._refused(f"SaslHandshake: {ErrorCode.describe(code)}")

    def is_slow(self, answer: Any) -> bool:
        return not answer.error_code and self._mechanism.is_slow(answer.auth_bytes or b"")

    def authenticated(self, answer: Any) -> None:
        """The broker's answer to a word. Raises AuthenticationError."""
        if answer.error_code:
            told = answer.error_message or ErrorCode.describe(answer.error_code)
            raise self._refused(f"{self._who} was refused: {told}", _REMEDIES.get(self.name, ""))
        self.next_word = self._said(partial(self._mechanism.answer, answer.auth_bytes or b""))
        if self.next_word is None and answer.session_lifetime_ms:
            self.lifetime = answer.session_lifetime_ms / 1000

    def _said(self, say: Callable[[], bytes | None]) -> bytes | None:
        try:
            word = say()
        except RefusedError as error:
            raise self._refused(f"{self._who}: {error}") from error
        self._words += word is not None
        if self._words > MOST_WORDS:
            raise self._refused(f"{self._who}: the broker has not come to an end after {MOST_WORDS} words")
        return word

    @property
    def _who(self) -> str:
        return f"{self.name} as {self.user!r}" if self.user else self.name

    def _refused(self, problem: str, remedy: str = "") -> AuthenticationError:
        return AuthenticationError(self.address, problem, remedy)
