"""SASL credentials from the options, and a new `Exchange` with them for each authentication.

Credentials may come from other servers, so getting them may take long. A token is requested each time, since the last
one may have expired.
"""

from __future__ import annotations

import importlib.util
import inspect
from collections.abc import Callable
from functools import partial
from typing import Protocol

import trio

from sarameya.config import Config, TokenSource
from sarameya.config.security import requires_sasl
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
        """Get the credentials, and return an authentication with the broker at this address.

        Raises:
            TokenError: No credentials are available now.
        """


def authenticator_of(config: Config) -> Authenticator | None:
    """Return the authenticator of the options, or None if they use no SASL.

    Raises ConfigError if a package is missing.
    """
    if not requires_sasl(config):
        return None
    assert config.sasl_mechanism is not None
    if config.sasl_mechanism == "OAUTHBEARER":
        assert config.sasl_token is not None
        return _TokenAuthenticator(config.sasl_token)
    if config.sasl_mechanism == "GSSAPI":
        _require("gssapi", config.sasl_mechanism, "kerberos")
        return _MachineAuthenticator(config.sasl_mechanism, partial(gssapi, config.sasl_kerberos_service))
    if config.sasl_mechanism == "AWS_MSK_IAM":
        _require("botocore", config.sasl_mechanism, "aws")
        return _MachineAuthenticator(config.sasl_mechanism, aws_msk_iam)
    assert config.sasl_username is not None
    assert config.sasl_password is not None
    return _PasswordAuthenticator(config.sasl_mechanism, config.sasl_username, config.sasl_password)


class _PasswordAuthenticator:
    source = "sasl_password"

    def __init__(self, mechanism: str, username: str, password: Secret) -> None:
        self._mechanism = mechanism
        self._username = username
        self._password = password

    async def begin(self, address: str) -> Exchange:
        return Exchange(self._mechanism, self._username, address, self._new_mechanism())

    def _new_mechanism(self) -> Mechanism:
        if self._mechanism == "PLAIN":
            return plain(self._username, self._password)
        return scram(self._mechanism, self._username, self._password)


class _TokenAuthenticator:
    source = "sasl_token"

    def __init__(self, token_source: TokenSource) -> None:
        self._token_source = token_source
        self._threads = _thread_limiter()

    async def begin(self, address: str) -> Exchange:
        token = await _request_token(self._token_source, self._threads)
        return Exchange("OAUTHBEARER", "", address, oauthbearer(token))


class _MachineAuthenticator:
    """Credentials of this machine: a Kerberos ticket, or an AWS role. Each authentication may ask other servers."""

    def __init__(self, mechanism: str, make: Callable[[str], Mechanism]) -> None:
        self.source = mechanism
        self._mechanism = mechanism
        self._make = make
        self._threads = _thread_limiter()

    async def begin(self, address: str) -> Exchange:
        host = address.rpartition(":")[0].strip("[]")
        try:
            # Abandoned on cancellation: the server that the thread waits for may never answer.
            mechanism = await trio.to_thread.run_sync(self._make, host, abandon_on_cancel=True, limiter=self._threads)
        except UnavailableError as error:
            reason = masked_text(str(error))
            raise TokenError(f"no {self._mechanism} credentials for {address}: {reason}") from error
        return Exchange(self._mechanism, "", address, mechanism)


def _require(package: str, mechanism: str, extra: str) -> None:
    if importlib.util.find_spec(package) is None:
        raise ConfigError("sasl_mechanism", mechanism, f"needs {package}: {install_command(extra)}")


def _thread_limiter() -> trio.CapacityLimiter:
    """Return a limiter for one client, so that its abandoned threads use up no other client's capacity."""
    return trio.CapacityLimiter(8)


async def _request_token(source: TokenSource, threads: trio.CapacityLimiter) -> Token:
    """Call the user's `sasl_token`. Raises TokenError if it raises, or returns no usable token."""
    try:
        # A function may block, so it runs in a thread. An object with an async __call__ is recognised by its result.
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
