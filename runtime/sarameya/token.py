"""Access tokens for OAUTHBEARER."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import attrs

from sarameya.secret import HIDDEN, Secret

_VISIBLE = re.compile(r"[!-~]+")
_NAME = re.compile(r"[A-Za-z]+")
_TEXT = re.compile(r"[ -~\t\r\n]*")


def _secret(value: Secret | str) -> Secret:
    """Remove surrounding white space: token files often end with a line break."""
    return Secret(value.reveal().strip() if isinstance(value, Secret) else value.strip())


def _visible(_: object, attribute: attrs.Attribute[Any], value: Secret) -> None:
    if not _VISIBLE.fullmatch(value.reveal()):
        raise ValueError("a token must consist of visible ASCII characters, without spaces")


def _extensions(_: object, attribute: attrs.Attribute[Any], value: Any) -> None:
    if not isinstance(value, Mapping):
        raise ValueError(f"a token's extensions must be a mapping, not a {type(value).__name__}")
    for name, text in value.items():
        if not isinstance(name, str) or not _NAME.fullmatch(name) or name == "auth":
            raise ValueError("the name of a token's extension must consist of the letters A-Z a-z, and not be 'auth'")
        if not isinstance(text, str) or not _TEXT.fullmatch(text):
            raise ValueError(f"a token's extension {name} must be a string of ASCII text")


def _without_values(extensions: Mapping[str, str]) -> str:
    return repr(dict.fromkeys(extensions, HIDDEN))


@attrs.frozen(slots=True)
class Token:
    """An access token (RFC 7628) and its extensions (KIP-342). Their values are never shown.

    White space around the token is removed.

    Raises:
        ValueError: The token or an extension has characters that the mechanism does not allow.
    """

    value: Secret = attrs.field(converter=_secret, validator=_visible)
    extensions: Mapping[str, str] = attrs.field(factory=dict, validator=_extensions, repr=_without_values)
