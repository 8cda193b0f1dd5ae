"""SASL credentials from the options, made into one exchange for each authentication.

Owns the parts that may wait for other servers. A token is requested anew each time, since the last one may have
expired.
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
    """Factory of authentications."""

    @property
    def source(self) -> str:
        """Option or mechanism that provides the credentials, for error messages."""

    async def begin(self, address: str) -> Exchange:
        """Start an authentication with the broker at this address.

        Raises TokenError if no credentials are available now.
        """


def authenticator_of(config: Config) -> Authenticator | None:
    """Return the authenticator of the options, or None if they use no SASL.

    Raises ConfigError if a package is missing.
    """
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
    """Credentials of this machine: a Kerberos ticket, a role. Other servers may be asked for them, each time anew."""

    def __init__(self, mechanism: str, make: Callable[[str], Mechanism]) -> None:
        self.source = mechanism
        self._mechanism = mechanism
        self._make = make
        self._threads = _threads()

    async def begin(self, address: str) -> Exchange:
        host = address.rpartition(":")[0].strip("[]")
        try:
            # A server that does not answer must not block a caller that is cancelled.
            made = await trio.to_thread.run_sync(self._make, host, abandon_on_cancel=True, limiter=self._threads)
        except UnavailableError as error:
            reason = masked_text(str(error))
            raise TokenError(f"no {self._mechanism} credentials for {address}: {reason}") from error
        return Exchange(self._mechanism, "", address, made)


def _need(package: str, mechanism: str, extra: str) -> None:
    if importlib.util.find_spec(package) is None:
        raise ConfigError("sasl_mechanism", mechanism, f"needs {package}: {install_command(extra)}")


def _threads() -> trio.CapacityLimiter:
    """Return a limiter for one client: its hanging, abandoned threads take none from others."""
    return trio.CapacityLimiter(8)


async def _ask(source: TokenSource, threads: trio.CapacityLimiter) -> Token:
    try:
        # The source may block, so it runs in a thread. An object with an async __call__ shows only in its result.
        returned = (
            source()
            if inspect.iscoroutinefunction(source)
            else await trio.to_thread.run_sync(source, abandon_on_cancel=True, limiter=threads)
        )
        if inspect.isawaitable(returned):
            returned = await returned
    except Exception as error:
        raise TokenError(f"sasl_token raised {type(error).__name__}: {masked_text(str(error))}") from error
    if isinstance(returned, Token):
        return returned
    if isinstance(returned, str) and returned:
        try:
            return Token(returned)
        except ValueError as error:
            raise TokenError(f"sasl_token returned an invalid token: {error}") from None
    raise TokenError(f"sasl_token returned a {type(returned).__name__} instead of a sarameya.Token or a non-empty str")
