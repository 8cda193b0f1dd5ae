"""The broker's side of each SASL mechanism. Passwords are stored in plain text, since this is for tests.

An exchange is a generator. It receives the client's messages and yields the broker's. It returns `SaslSuccess` or
raises `SaslAuthenticationFailed`.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Callable, Generator, Mapping
from typing import Any

import attrs


@attrs.frozen(slots=True)
class SaslSuccess:
    """The name of the authenticated client, and the last message to it."""

    name: str
    message: bytes = b""


SaslExchange = Generator[bytes, bytes, SaslSuccess]
"""The exchange of messages of one authentication."""

ITERATIONS = 4096
_HASHES: Mapping[str, Callable[..., Any]] = {"SCRAM-SHA-256": hashlib.sha256, "SCRAM-SHA-512": hashlib.sha512}
MECHANISMS = ("PLAIN", *_HASHES, "OAUTHBEARER")


class SaslAuthenticationFailed(Exception):
    """Authentication failed. The message is the reason, in Kafka's words where there are some."""


def plain(users: Mapping[str, str]) -> SaslExchange:
    """Authenticate by name and password (RFC 4616)."""
    parts = _text((yield b"")).split("\0")
    if len(parts) != 3:
        raise SaslAuthenticationFailed(f"Invalid SASL/PLAIN response: expected 3 tokens, got {len(parts)}")
    _, name, password = parts
    known = users.get(name)
    if known is None or not hmac.compare_digest(known.encode(), password.encode()):
        raise SaslAuthenticationFailed("Authentication failed: Invalid username or password")
    return SaslSuccess(name)


def scram(mechanism: str, users: Mapping[str, str], nonce: str) -> SaslExchange:
    """Authenticate by a salted challenge (RFC 5802), without channel binding.

    Args:
        mechanism: "SCRAM-SHA-256" or "SCRAM-SHA-512".
        users: Password of each user.
        nonce: The broker's part of the nonce.
    """
    function = _HASHES[mechanism]
    first = _text((yield b""))
    if not first.startswith("n,,"):
        raise SaslAuthenticationFailed("Invalid SCRAM client first message format")
    bare = first.removeprefix("n,,")
    said = _attributes(bare)
    name = said.get("n", "").replace("=2C", ",").replace("=3D", "=")
    if name not in users:
        raise SaslAuthenticationFailed("Authentication failed: Invalid user credentials")
    salt = hashlib.sha256(name.encode()).digest()[:16]
    both = said.get("r", "") + nonce
    server_first = f"r={both},s={base64.b64encode(salt).decode()},i={ITERATIONS}"
    final = _text((yield server_first.encode()))
    without_proof, _, proof = final.rpartition(",p=")
    if _attributes(without_proof).get("r") != both:
        raise SaslAuthenticationFailed("Invalid client nonce in the final client message.")

    def keyed(key: bytes, message: bytes) -> bytes:
        return hmac.new(key, message, function).digest()

    salted = hashlib.pbkdf2_hmac(function().name, users[name].encode(), salt, ITERATIONS)
    stored = function(keyed(salted, b"Client Key")).digest()
    signed = f"{bare},{server_first},{without_proof}".encode()
    signature = keyed(stored, signed)
    given = bytes(one ^ other for one, other in zip(_decoded(proof), signature, strict=False))
    if not hmac.compare_digest(function(given).digest(), stored):
        raise SaslAuthenticationFailed(
            "Authentication failed due to invalid credentials with SASL mechanism " + mechanism
        )
    return SaslSuccess(name, b"v=" + base64.b64encode(keyed(keyed(salted, b"Server Key"), signed)))


def oauthbearer(tokens: Mapping[str, str]) -> SaslExchange:
    """Authenticate by a token (RFC 7628). `tokens` has the user of each valid token."""
    token = _text((yield b"")).partition("auth=Bearer ")[2].partition("\x01")[0]
    if token not in tokens:
        yield b'{"status":"invalid_token"}'
        raise SaslAuthenticationFailed('{"status":"invalid_token"}')
    return SaslSuccess(tokens[token])


def _text(said: bytes) -> str:
    try:
        return said.decode()
    except UnicodeDecodeError:
        raise SaslAuthenticationFailed("the message is not text") from None


def _attributes(message: str) -> dict[str, str]:
    pairs = (part.partition("=") for part in message.split(","))
    return {name: value for name, _, value in pairs}


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except ValueError:
        raise SaslAuthenticationFailed("the proof is not base64") from None
