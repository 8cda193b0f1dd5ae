"""SASL mechanisms: the messages for the broker, made from its challenges. kafka-python's classes do the work.

A `Mechanism` is the state of one authentication, so each authentication makes a new object. If a challenge is malformed
or unsafe to answer, it raises `RefusedError` with a message of our own, never an exception of kafka-python.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Protocol

import attrs
from kafka.net.sasl.abc import SaslMechanism
from kafka.net.sasl.gssapi import SaslMechanismGSSAPI
from kafka.net.sasl.msk import SaslMechanismAwsMskIam
from kafka.net.sasl.oauth import AbstractTokenProvider, SaslMechanismOAuth
from kafka.net.sasl.plain import SaslMechanismPlain
from kafka.net.sasl.scram import SaslMechanismScram

from sarameya.secret import Secret
from sarameya.token import Token

FEWEST_ITERATIONS = 4096
"""Minimum of RFC 5802 and of Kafka: with fewer, an eavesdropper can find the password by brute force."""
MOST_ITERATIONS = 1_000_000
"""Bound for the work that a hostile broker can cause."""
_QUICK_ITERATIONS = 2**14
"""Iterations that may run in the event loop. More take so long (ten milliseconds) that other tasks should not wait."""


class RefusedError(Exception):
    """The authentication cannot continue. The message has the reason."""


class UnavailableError(Exception):
    """No credentials are available now. The message has the reason."""


class Mechanism(Protocol):
    """Client's side of one authentication."""

    def first(self) -> bytes:
        """Return the first message. Raises RefusedError."""

    def answer(self, challenge: bytes) -> bytes | None:
        """Return the next message, or None when the authentication is complete. Raises RefusedError."""

    def is_slow(self, challenge: bytes) -> bool:
        """Return whether `answer` takes long for this challenge, or waits for other servers."""


@attrs.define(slots=True)
class _Guarded:
    """Wrapper of a kafka-python mechanism that converts its exceptions to RefusedError."""

    _mechanism: SaslMechanism

    def first(self) -> bytes:
        try:
            return bytes(self._mechanism.auth_bytes())
        # Without the exception: its text may contain the secret.
        except Exception as error:  # noqa: BLE001
            raise RefusedError(f"the credentials cannot be encoded ({type(error).__name__})") from None

    def answer(self, challenge: bytes) -> bytes | None:
        try:
            self._mechanism.receive(challenge)
        # Malformed bytes may lead to any exception.
        except Exception as error:
            raise RefusedError(f"the broker's response is malformed ({error or type(error).__name__})") from error
        if not self._mechanism.is_done():
            return bytes(self._mechanism.auth_bytes())
        if not self._mechanism.is_authenticated():
            raise RefusedError("the broker's last response does not confirm the authentication")
        return None

    def is_slow(self, challenge: bytes) -> bool:
        return False


class _Scram(_Guarded):
    """SCRAM (RFC 5802). The broker proves that it knows the password, too."""

    def answer(self, challenge: bytes) -> bytes | None:
        attributes = _attributes(challenge)
        if "e" in attributes:
            raise RefusedError(f"the broker reports: {attributes['e']}")
        if "i" in attributes and not FEWEST_ITERATIONS <= (rounds := _iterations(attributes)) <= MOST_ITERATIONS:
            raise RefusedError(
                f"the broker requires {rounds} iterations; {FEWEST_ITERATIONS} to {MOST_ITERATIONS} are allowed"
            )
        return super().answer(challenge)

    def is_slow(self, challenge: bytes) -> bool:
        return _iterations(_attributes(challenge)) > _QUICK_ITERATIONS


def _attributes(message: bytes) -> dict[str, str]:
    pairs = (part.partition("=") for part in message.decode(errors="replace").split(","))
    return {name: value for name, _, value in pairs}


def _iterations(attributes: Mapping[str, str]) -> int:
    """Return the number of iterations, 0 if the challenge has no valid one."""
    text = attributes.get("i", "")
    return int(text) if text.isdecimal() and len(text) < 10 else 0


class _FixedToken(AbstractTokenProvider):  # type: ignore[misc]
    """Token provider for kafka-python that returns a token fetched before."""

    def __init__(self, token: Token) -> None:
        self._token = token

    def token(self) -> str:
        return self._token.value.reveal()

    def extensions(self) -> dict[str, str]:
        return dict(self._token.extensions)


# With another value kafka-python logs a warning about unencrypted passwords. We have our own (`weak_security`).
_COMMON: Mapping[str, Any] = {"security_protocol": "SASL_SSL"}


def plain(username: str, password: Secret) -> Mechanism:
    """Make PLAIN (RFC 4616), which sends the password itself."""
    return _Guarded(SaslMechanismPlain(sasl_plain_username=username, sasl_plain_password=password.reveal(), **_COMMON))


def scram(name: str, username: str, password: Secret) -> Mechanism:
    """Make SCRAM-SHA-256 or SCRAM-SHA-512."""
    # RFC 5802, 5.1: kafka-python does not escape names.
    escaped = username.replace("=", "=3D").replace(",", "=2C")
    return _Scram(
        SaslMechanismScram(
            sasl_mechanism=name, sasl_plain_username=escaped, sasl_plain_password=password.reveal(), **_COMMON
        )
    )


def oauthbearer(token: Token) -> Mechanism:
    """Make OAUTHBEARER (RFC 7628, KIP-255)."""
    return _Guarded(SaslMechanismOAuth(sasl_oauth_token_provider=_FixedToken(token)))


_MINOR = re.compile(r"Minor \(\d+\): (.+)", re.DOTALL)
"""Message of the Kerberos library inside a message of GSSAPI."""


class _RemoteCredentials(_Guarded):
    """Mechanism whose credentials come from other servers. Its construction blocks: it makes the first message."""

    def __init__(self, mechanism: SaslMechanism) -> None:
        super().__init__(mechanism)
        self._first = bytes(mechanism.auth_bytes())

    def first(self) -> bytes:
        return self._first

    def is_slow(self, challenge: bytes) -> bool:
        return True


def gssapi(service: str, host: str) -> Mechanism:
    """Make GSSAPI (RFC 4752, with Kerberos), with a ticket for the broker's service on its host.

    Blocks: the ticket may come from a Kerberos server. Raises UnavailableError.
    """
    try:
        return _RemoteCredentials(SaslMechanismGSSAPI(sasl_kerberos_service_name=service, host=host, **_COMMON))
    except Exception as error:
        message = _MINOR.search(str(error))
        raise UnavailableError(f"Kerberos reports: {message[1] if message else error}") from error


def aws_msk_iam(host: str) -> Mechanism:
    """Make AWS_MSK_IAM: a request for permission to connect, signed with the credentials that botocore finds.

    Blocks: botocore may ask AWS for the credentials. Raises UnavailableError.
    """
    mechanism = SaslMechanismAwsMskIam(host=host, **_COMMON)
    try:
        return _RemoteCredentials(mechanism)
    except AttributeError as error:  # kafka-python uses None as credentials
        raise UnavailableError("botocore found no credentials in environment variables, a profile or a role") from error
    except Exception as error:
        raise UnavailableError(f"botocore reports: {error}") from error
