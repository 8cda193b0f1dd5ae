"""Who we are to a broker, by SASL: credentials of the options, made into one exchange for each authentication.

Owns what may wait for others: a token is asked for anew each time, since the last one may have run out.
"""

from __future__ import annotations

import importlib.util
import inspect
from collections.abc import Callable
from functools import partial
from typing import Protocol

import trio

from sarameya.config import Config, TokenSource
from sarameya.config.security import asks_who
from sarameya.errors import ConfigError, TokenError
from sarameya.extras import install_command
from sarameya.protocol.sasl.exchange import Exchange
from sarameya.protocol.sasl.mechanisms import (
    Mechanism,
    UnavailableError,
    aws_msk_iam,
    gssapi,
    oauthbearer,
    plain,
    scram,
)
from sarameya.secret import Secret, masked_text
from sarameya.token import Token


class Authenticator(Protocol):
    """Begins authentications."""

    @property
    def source(self) -> str:
        """What gives it what is shown, in words."""

    async def begin(self, address: str) -> Exchange:
        """One with the broker at this address. Raises TokenError where there is nothing to show it now."""


def authenticator_of(config: Config) -> Authenticator | None:
    """By the options; None where nobody asks who we are. Raises ConfigError where a package is missing for it."""
    if not asks_who(config):
        return None
    assert config.sasl_mechanism is not None
    if config.sasl_mechanism == "OAUTHBEARER":
        assert config.sasl_token is not None
        return _ByToken(config.sasl_token)
    if config.sasl_mechanism == "GSSAPI":
        _need("gssapi", config.sasl_mechanism, "kerberos")
        return _ByMachine(config.sasl_mechanism, partial(gssapi, config.sasl_kerberos_service))
    if config.sasl_mechanism == "AWS_MSK_IAM":
        _need("botocore", config.sasl_mechanism, "aws")
        return _ByMachine(config.sasl_mechanism, aws_msk_iam)
    assert config.sasl_username is not None
    assert config.sasl_password is not None
    return _ByPassword(config.sasl_mechanism, config.sasl_username, config.sasl_password)


class _ByPassword:
    source = "sasl_password"

    def __init__(self, mechanism: str, username: str, password: Secret) -> None:
        self._mechanism = mechanism
        self._username = username
        self._password = password

    async def begin(self, address: str) -> Exchange:
        return Exchange(self._mechanism, self._username, address, self._conversation())

    def _conversation(self) -> Mechanism:
        if self._mechanism == "PLAIN":
            return plain(self._username, self._password)
        return scram(self._mechanism, self._username, self._password)


class _ByToken:
    source = "sasl_token"

    def __init__(self, give: TokenSource) -> None:
        self._give = give
        self._threads = _threads()

    async def begin(self, address: str) -> Exchange:
        return Exchange("OAUTHBEARER", "", address, oauthbearer(await _ask(self._give, self._threads)))


class _ByMachine:
    """By what this machine has: a Kerberos ticket, a role. Others may be asked for it, each time anew."""

    def __init__(self, mechanism: str, make: Callable[[str], Mechanism]) -> None:
        self.source = mechanism
        self._mechanism = mechanism
        self._make = make
        self._threads = _threads()

    async def begin(self, address: str) -> Exchange:
        host = address.rpartition(":")[0].strip("[]")
        try:
            # Who does not answer is not waited for by who gives up.
            made = await trio.to_thread.run_sync(self._make, host, abandon_on_cancel=True, limiter=self._threads)
        except UnavailableError as error:
            told = masked_text(str(error))
            raise TokenError(f"there is nothing to show {address} by {self._mechanism}: {told}") from error
        return Exchange(self._mechanism, "", address, made)


def _need(package: str, mechanism: str, extra: str) -> None:
    if importlib.util.find_spec(package) is None:
        raise ConfigError("sasl_mechanism", mechanism, f"needs {package}: {install_command(extra)}")


def _threads() -> trio.CapacityLimiter:
    """A client's own: those that hang, and were given up, take none from others."""
    return trio.CapacityLimiter(8)


async def _ask(source: TokenSource, threads: trio.CapacityLimiter) -> Token:
    try:
        # What it is asked for may take its time, and an object with an async __call__ is told by what it gives.
        told = (
            source()
            if inspect.iscoroutinefunction(source)
            else await trio.to_thread.run_sync(source, abandon_on_cancel=True, limiter=threads)
        )
        if inspect.isawaitable(told):
            told = await told
    except Exception as error:
        raise TokenError(f"sasl_token raised {type(error).__name__}: {masked_text(str(error))}") from error
    if isinstance(told, Token):
        return told
    if isinstance(told, str) and told:
        try:
            return Token(told)
        except ValueError as error:
            raise TokenError(f"sasl_token gave what is no token: {error}") from None
    raise TokenError(f"sasl_token gave a {type(told).__name__}, not a sarameya.Token or a str that is not empty")
