"""The mechanisms: words for the broker, made of its own. Kafka-python's do the work; what they leave open is guarded.

A mechanism is one conversation and made anew for each. What a broker says that makes no sense, or is not safe to go on
with, raises `RefusedError` in words of ours, never as one of theirs.
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
"""RFC 5802, and Kafka's own least: with fewer, who listens in can find the password by trying."""
MOST_ITERATIONS = 1_000_000
_QUICK_ITERATIONS = 2**14
"""More of them take so long (ten milliseconds) that others should not have to wait."""


class RefusedError(Exception):
    """The conversation cannot go on; says why."""


class UnavailableError(Exception):
    """There is nothing to show a broker now; says why."""


class Mechanism(Protocol):
    """One conversation."""

    def first(self) -> bytes:
        """What is said first. Raises RefusedError."""

    def answer(self, challenge: bytes) -> bytes | None:
        """What is said next, None when all has been said. Raises RefusedError."""

    def is_slow(self, challenge: bytes) -> bool:
        """Whether the answer to this takes its time, or waits for others."""


@attrs.define(slots=True)
class _Guarded:
    """One of kafka-python's."""

    _mechanism: SaslMechanism

    def first(self) -> bytes:
        try:
            return bytes(self._mechanism.auth_bytes())
        # Whatever they raise may have in its text what it was about.
        except Exception as error:  # noqa: BLE001
            raise RefusedError(f"there are no words for what is to be shown ({type(error).__name__})") from None

    def answer(self, challenge: bytes) -> bytes | None:
        try:
            self._mechanism.receive(challenge)
        # What they raise for bytes that make no sense is whatever those led to.
        except Exception as error:
            raise RefusedError(f"the broker's answer makes no sense ({error or type(error).__name__})") from error
        if not self._mechanism.is_done():
            return bytes(self._mechanism.auth_bytes())
        if not self._mechanism.is_authenticated():
            raise RefusedError("the broker's last answer does not show that it has taken us")
        return None

    def is_slow(self, challenge: bytes) -> bool:
        return False


class _Scram(_Guarded):
    """SCRAM (RFC 5802), where the broker shows that it knows the password, too."""

    def answer(self, challenge: bytes) -> bytes | None:
        told = _attributes(challenge)
        if "e" in told:
            raise RefusedError(f"the broker says: {told['e']}")
        if "i" in told and not FEWEST_ITERATIONS <= (rounds := _iterations(told)) <= MOST_ITERATIONS:
            raise RefusedError(
                f"the broker asks for {rounds} iterations; {FEWEST_ITERATIONS} to {MOST_ITERATIONS} are done"
            )
        return super().answer(challenge)

    def is_slow(self, challenge: bytes) -> bool:
        return _iterations(_attributes(challenge)) > _QUICK_ITERATIONS


def _attributes(message: bytes) -> dict[str, str]:
    pairs = (part.partition("=") for part in message.decode(errors="replace").split(","))
    return {name: value for name, _, value in pairs}


def _iterations(attributes: Mapping[str, str]) -> int:
    """0 where it says none."""
    text = attributes.get("i", "")
    return int(text) if text.isdecimal() and len(text) < 10 else 0


class _Given(AbstractTokenProvider):  # type: ignore[misc]
    """A token that has been had before."""

    def __init__(self, token: Token) -> None:
        self._token = token

    def token(self) -> str:
        return self._token.value.reveal()

    def extensions(self) -> dict[str, str]:
        return dict(self._token.extensions)


# Kafka-python warns in a log of its own where passwords travel in the clear; our configuration has its own word on it.
_COMMON: Mapping[str, Any] = {"security_protocol": "SASL_SSL"}


def plain(username: str, password: Secret) -> Mechanism:
    """PLAIN (RFC 4616): the password itself."""
    return _Guarded(SaslMechanismPlain(sasl_plain_username=username, sasl_plain_password=password.reveal(), **_COMMON))


def scram(name: str, username: str, password: Secret) -> Mechanism:
    """SCRAM-SHA-256 or SCRAM-SHA-512."""
    # RFC 5802, 5.1: kafka-python sends names as they are.
    escaped = username.replace("=", "=3D").replace(",", "=2C")
    return _Scram(
        SaslMechanismScram(
            sasl_mechanism=name, sasl_plain_username=escaped, sasl_plain_password=password.reveal(), **_COMMON
        )
    )


def oauthbearer(token: Token) -> Mechanism:
    """OAUTHBEARER (RFC 7628, KIP-255)."""
    return _Guarded(SaslMechanismOAuth(sasl_oauth_token_provider=_Given(token)))


_MINOR = re.compile(r"Minor \(\d+\): (.+)", re.DOTALL)
"""What Kerberos' own library says, behind what GSSAPI makes of it."""


class _Asked(_Guarded):
    """One that others than the broker are asked for: whoever makes it, and what is said first, waits for them."""

    def __init__(self, mechanism: SaslMechanism) -> None:
        super().__init__(mechanism)
        self._first = bytes(mechanism.auth_bytes())

    def first(self) -> bytes:
        return self._first

    def is_slow(self, challenge: bytes) -> bool:
        return True


def gssapi(service: str, host: str) -> Mechanism:
    """GSSAPI (RFC 4752, by Kerberos): a ticket for the broker's service on its host, which a Kerberos server may be
    asked for. Blocks; raises UnavailableError."""
    try:
        return _Asked(SaslMechanismGSSAPI(sasl_kerberos_service_name=service, host=host, **_COMMON))
    except Exception as error:
        said = _MINOR.search(str(error))
        raise UnavailableError(f"Kerberos says: {said[1] if said else error}") from error


def aws_msk_iam(host: str) -> Mechanism:
    """AWS_MSK_IAM: a request for leave to connect, signed by what credentials botocore finds, which may ask AWS for
    them. Blocks; raises UnavailableError."""
    mechanism = SaslMechanismAwsMskIam(host=host, **_COMMON)
    try:
        return _Asked(mechanism)
    except AttributeError as error:  # of the None that kafka-python takes for credentials
        raise UnavailableError("botocore has found no credentials, in variables, a profile or a role") from error
    except Exception as error:
        raise UnavailableError(f"botocore says: {error}") from error
