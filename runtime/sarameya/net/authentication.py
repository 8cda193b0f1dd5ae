"""Who we are to a broker, by SASL: credentials of the options, made into one exchange for each authentication.

Owns what may wait for others: a token is asked for anew each time, since the last one may have run out.
"""

from __future__ import annotations

import inspect
from typing import Protocol

import trio

from sarameya.config import Config, TokenSource
from sarameya.config.security import asks_who
from sarameya.errors import TokenError
from sarameya.protocol.sasl.exchange import Exchange
from sarameya.protocol.sasl.mechanisms import Mechanism, oauthbearer, plain, scram
from sarameya.secret import Secret, masked_text
from sarameya.token import Token


class Authenticator(Protocol):
    """Begins authentications."""

    async def begin(self, address: str) -> Exchange:
        """One with the broker at this address. Raises TokenError where there is nothing to show it now."""


def authenticator_of(config: Config) -> Authenticator | None:
    """By the options; None where nobody asks who we are."""
    if not asks_who(config):
        return None
    assert config.sasl_mechanism is not None
    if config.sasl_mechanism == "OAUTHBEARER":
        assert config.sasl_token is not None
        return _ByToken(config.sasl_token)
    assert config.sasl_username is not None
    assert config.sasl_password is not None
    return _ByPassword(config.sasl_mechanism, config.sasl_username, config.sasl_password)


class _ByPassword:
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
    def __init__(self, source: TokenSource) -> None:
        self._source = source

    async def begin(self, address: str) -> Exchange:
        return Exchange("OAUTHBEARER", "", address, oauthbearer(await _ask(self._source)))


async def _ask(source: TokenSource) -> Token:
    try:
        # What it is asked for may take its time, and an object with an async __call__ is told by what it gives.
        told = source() if inspect.iscoroutinefunction(source) else await trio.to_thread.run_sync(source)
        if inspect.isawaitable(told):
            told = await told
    except Exception as error:
        raise TokenError(f"sasl_token raised {type(error).__name__}: {masked_text(str(error))}") from error
    if isinstance(told, Token):
        return told
    if isinstance(told, str) and told:
        return Token(Secret(told))
    raise TokenError(f"sasl_token gave a {type(told).__name__}, not a sarameya.Token or a str that is not empty")
