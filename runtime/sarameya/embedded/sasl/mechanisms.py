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
    """The result of a successful exchange: the user name, and the broker's last message to the client."""

    name: str
    message: bytes = b""


SaslExchange = Generator[bytes, bytes, SaslSuccess]
"""The exchange of messages of one authentication; see the module's docstring."""

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
    authorization_id, name, password = parts
    if authorization_id not in ("", name):
        raise SaslAuthenticationFailed(
            "Authentication failed: Client requested an authorization id that is different from username"
        )
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
    hash_function = _HASHES[mechanism]
    first = _text((yield b""))
    if not first.startswith("n,,"):
        raise SaslAuthenticationFailed("Invalid SCRAM client first message format")
    bare = first.removeprefix("n,,")
    attributes = _attributes(bare)
    name = attributes.get("n", "").replace("=2C", ",").replace("=3D", "=")
    if name not in users:
        raise SaslAuthenticationFailed("Authentication failed: Invalid user credentials")
    salt = hashlib.sha256(name.encode()).digest()[:16]
    full_nonce = attributes.get("r", "") + nonce
    server_first = f"r={full_nonce},s={base64.b64encode(salt).decode()},i={ITERATIONS}"
    final = _text((yield server_first.encode()))
    without_proof, _, proof = final.rpartition(",p=")
    if _attributes(without_proof).get("r") != full_nonce:
        raise SaslAuthenticationFailed("Invalid client nonce in the final client message.")

    def hmac_of(key: bytes, message: bytes) -> bytes:
        return hmac.new(key, message, hash_function).digest()

    salted_password = hashlib.pbkdf2_hmac(hash_function().name, users[name].encode(), salt, ITERATIONS)
    stored_key = hash_function(hmac_of(salted_password, b"Client Key")).digest()
    auth_message = f"{bare},{server_first},{without_proof}".encode()
    signature = hmac_of(stored_key, auth_message)
    client_key = bytes(left ^ right for left, right in zip(_decoded(proof), signature, strict=False))
    if not hmac.compare_digest(hash_function(client_key).digest(), stored_key):
        raise SaslAuthenticationFailed(
            "Authentication failed due to invalid credentials with SASL mechanism " + mechanism
        )
    return SaslSuccess(name, b"v=" + base64.b64encode(hmac_of(hmac_of(salted_password, b"Server Key"), auth_message)))


def oauthbearer(tokens: Mapping[str, str]) -> SaslExchange:
    """Authenticate by a token (RFC 7628). `tokens` maps each valid token to its user."""
    token = _text((yield b"")).partition("auth=Bearer ")[2].partition("\x01")[0]
    if token not in tokens:
        yield b'{"status":"invalid_token"}'
        raise SaslAuthenticationFailed('{"status":"invalid_token"}')
    return SaslSuccess(tokens[token])


def _text(message: bytes) -> str:
    try:
        return message.decode()
    except UnicodeDecodeError:
        raise SaslAuthenticationFailed("the message is not UTF-8 text") from None


def _attributes(message: str) -> dict[str, str]:
    pairs = (part.partition("=") for part in message.split(","))
    return {name: value for name, _, value in pairs}


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except ValueError:
        raise SaslAuthenticationFailed("the proof is not base64") from None
