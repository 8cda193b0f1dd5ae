"""SASL mechanisms: the messages for the broker, made from its challenges. kafka-python's classes do the work.

A mechanism is one conversation, so each authentication makes a new one. If a challenge is malformed or unsafe to
answer, the mechanism raises `RefusedError` with a message of ours, never an exception of kafka-python.
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
"""Minimum of RFC 5802 and of Kafka: with fewer, an eavesdropper can find the password by trying."""
MOST_ITERATIONS = 1_000_000
_QUICK_ITERATIONS = 2**14
"""Iterations that may run in the event loop. More take so long (ten milliseconds) that other tasks should not wait."""


class RefusedError(Exception):
    """The conversation cannot continue; the message says why."""


class UnavailableError(Exception):
    """No credentials are available now; the message says why."""


class Mechanism(Protocol):
    """A conversation with a broker."""

    def first(self) -> bytes:
        """Return the first message. Raises RefusedError."""

    def answer(self, challenge: bytes) -> bytes | None:
        """Return the next message, or None when the conversation is complete. Raises RefusedError."""

    def is_slow(self, challenge: bytes) -> bool:
        """Return whether the answer to this challenge takes long, or waits for other servers."""


@attrs.define(slots=True)
class _Guarded:
    """Wrapper of one of kafka-python's mechanisms."""

    _mechanism: SaslMechanism

    def first(self) -> bytes:
        try:
            return bytes(self._mechanism.auth_bytes())
        # The text of its exceptions may contain the secret.
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
    """SCRAM (RFC 5802), in which the broker proves that it knows the password, too."""

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
    """Return the number of iterations, 0 if there is none."""
    text = attributes.get("i", "")
    return int(text) if text.isdecimal() and len(text) < 10 else 0


class _Given(AbstractTokenProvider):  # type: ignore[misc]
    """Provider of a token that was fetched before."""

    def __init__(self, token: Token) -> None:
        self._token = token

    def token(self) -> str:
        return self._token.value.reveal()

    def extensions(self) -> dict[str, str]:
        return dict(self._token.extensions)


# kafka-python logs a warning of its own if passwords travel in the clear; our configuration has its own warning.
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
    return _Guarded(SaslMechanismOAuth(sasl_oauth_token_provider=_Given(token)))


_MINOR = re.compile(r"Minor \(\d+\): (.+)", re.DOTALL)
"""The message of the Kerberos library inside that of GSSAPI."""


class _Asked(_Guarded):
    """A mechanism that asks other servers: its construction, which makes the first message, blocks."""

    def __init__(self, mechanism: SaslMechanism) -> None:
        super().__init__(mechanism)
        self._first = bytes(mechanism.auth_bytes())

    def first(self) -> bytes:
        return self._first

    def is_slow(self, challenge: bytes) -> bool:
        return True


def gssapi(service: str, host: str) -> Mechanism:
    """Make GSSAPI (RFC 4752, with Kerberos): a ticket for the broker's service on its host.

    A Kerberos server may be asked for the ticket. Blocks. Raises UnavailableError.
    """
    try:
        return _Asked(SaslMechanismGSSAPI(sasl_kerberos_service_name=service, host=host, **_COMMON))
    except Exception as error:
        said = _MINOR.search(str(error))
        raise UnavailableError(f"Kerberos reports: {said[1] if said else error}") from error


def aws_msk_iam(host: str) -> Mechanism:
    """Make AWS_MSK_IAM: a request for permission to connect, signed with the credentials that botocore finds.

    botocore may ask AWS for them. Blocks. Raises UnavailableError.
    """
    mechanism = SaslMechanismAwsMskIam(host=host, **_COMMON)
    try:
        return _Asked(mechanism)
    except AttributeError as error:  # kafka-python uses None as credentials
        raise UnavailableError("botocore found no credentials in environment variables, a profile or a role") from error
    except Exception as error:
        raise UnavailableError(f"botocore reports: {error}") from error
