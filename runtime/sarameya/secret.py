"""Secrets that are never shown, and the masking of values that may be secrets. Pure, except for reading secrets.

Secrets may come from the environment or from files. A value is masked if the words of its name suggest a secret, even
mistyped words: a message about `sasl.pasword` does not contain the password.
"""

from __future__ import annotations

import difflib
import hmac
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, final

MASK = "***"


def is_utf8(text: str) -> bool:
    """Return whether the text can be encoded as UTF-8.

    Text that Python reads from the environment or a command line may contain bytes that are not UTF-8, as surrogates.
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


@final
class Secret:
    """A text that is never shown: `repr`, `str` and formatting return `***`; only `reveal()` returns the text.

    It is not a string, so that it is not joined or written by accident, and cannot be written as JSON. Pickling
    includes the value, so that other processes can get it.
    """

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        if not isinstance(value, str) or not value:
            raise ValueError("must be a non-empty string")
        if not is_utf8(value):
            raise ValueError("must be text: it has bytes in it that are not UTF-8")
        self._value = value

    @classmethod
    def of(cls, text: str) -> Secret:
        """Return the secret that `text` refers to.

        Args:
            text: `env:NAME` for the value of an environment variable, `file:PATH` for the content of a file (read now,
                without its last line break), or the secret itself.

        Raises:
            ValueError: There is no such secret, or it is empty. The message does not show a secret.
        """
        kind, colon, rest = text.partition(":") if isinstance(text, str) else ("", "", "")
        match kind + colon:
            case "env:":
                return _of_environment(rest)
            case "file:":
                return _of_file(rest)
        return cls(text)

    def reveal(self) -> str:
        """Return the text."""
        return self._value

    def __repr__(self) -> str:
        return MASK

    def __format__(self, spec: str) -> str:
        return format(MASK, spec)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Secret):
            return NotImplemented
        return hmac.compare_digest(self._value.encode(), other._value.encode())

    def __hash__(self) -> int:
        return hash((Secret, self._value))

    def __reduce__(self) -> tuple[type[Secret], tuple[str]]:
        return Secret, (self._value,)


HIDDEN = Secret(MASK)
"""Placeholder for a secret."""


def _of_environment(name: str) -> Secret:
    if not name:
        raise ValueError("must name an environment variable after 'env:'")
    if name not in os.environ:
        raise ValueError(f"the environment variable {name} is not set")
    if not os.environ[name]:
        raise ValueError(f"the environment variable {name} is empty")
    return Secret(os.environ[name])


def _of_file(path: str) -> Secret:
    if not path:
        raise ValueError("must name a file after 'file:'")
    text = text_of_file(path)
    if not text:
        raise ValueError(f"the file {path} is empty")
    return Secret(text)


def text_of_file(path: str) -> str:
    """Return a file's text without its last line break, which editors and `echo` add.

    Raises:
        ValueError: The file cannot be read, or is not UTF-8 text.
    """
    try:
        text = Path(path).read_bytes().decode()
    except OSError as error:
        raise ValueError(f"the file {path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:  # its message would show the bytes
        raise ValueError(f"the file {path} is not UTF-8 text") from None
    return text.removesuffix("\n").removesuffix("\r")


# -- values that look secret ---------------------------------------------------------------------

_SECRET = re.compile(
    r"passw(or)?d|passphrase|secret|token|credential|jaas|userinfo|authorization|cookie|connectionstring"
    r"|(api|access|private|account|shared|encryption|signing|keystore|tls|ssl)key"
)
"""Parts of names of secrets. The names are compared without separators."""
_SECRET_WORDS = ("pass", "pwd", "sas", "auth")
_MISTYPED = ("password", "passphrase", "secret", "token", "credentials")
_LIKENESS = 0.84
_PLACES = {"file", "path", "location", "url", "uri", "class", "type", "provider", "ms", "seconds"}
"""Last words of names that are not secret: they name the place of a secret, its type or its duration."""
_ADDRESSES = ("server", "servers", "broker", "brokers", "brokerlist")
_BEFORE_HOST = re.compile(r".*@", re.DOTALL)
"""The part of an address up to the last `@`, which is masked. For a list, that is the last `@` of the whole list.

A message about the invalid address `user:password@host:9092` must not show the password, and a password may contain a
comma.
"""
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")

_IN_TEXT = re.compile(
    r"""(?P<before>
        (?: (?:password|passwd|passphrase|secret|token)\w{0,40}
          | (?:account|access|api|private)[_-]?key
          | (?<![a-z0-9])sig(?:nature)?
        )= )
        (?: "(?:\\.|[^"\\])*" | '(?:\\.|[^'\\])*' | [^;&,\s"']+ )

      | (?P<header> authorization["']?\s*[:=]\s*["']?(?:bearer|basic)\s+ ) [^\s,;"']+
      | (?P<bearer> \bbearer\s+ ) (?= [\w.~+/=-]*\d | [\w.~+/=-]{20} ) [\w.~+/=-]{8,}  # a token, not any word

        # Digits after the colon that end like a port are a port, not a password. A password may contain "/" or "@".
      | (?P<user> (?<![a-z0-9+.-])[a-z0-9+.-]+://[^\s/@:]*: ) (?!\d{1,5}(?:[/?\#,\s]|$)) (?:(?!://)\S)+(?=@)
      | (?P<scheme> (?<![a-z0-9+.-])[a-z0-9+.-]+:// ) [^\s/:]+(?=@)
    """,
    re.IGNORECASE | re.VERBOSE,
)


def looks_secret(name: str) -> bool:
    """Return whether a value with this name may be a password, a key or another secret."""
    words = [word.lower() for word in _WORD.findall(name)]
    if not words or words[-1] in _PLACES:
        return False
    return bool(
        _SECRET.search("".join(words))
        or any(word in _SECRET_WORDS or difflib.get_close_matches(word, _MISTYPED, 1, _LIKENESS) for word in words)
    )


def _names_addresses(name: str) -> bool:
    """Return whether a value with this name may be addresses of brokers."""
    parts = ["".join(_WORD.findall(part)).lower() for part in name.split(".")]
    return "".join(parts).endswith(_ADDRESSES) or any(
        difflib.get_close_matches("".join(parts[-last:]), ["bootstrapservers"], 1, _LIKENESS) for last in (1, 2)
    )


def masked(name: str, value: Any) -> Any:
    """Return `value` for a message, with `HIDDEN` or `***` in place of each part that may be secret.

    Args:
        name: Name of the value.
        value: Text, number, list, tuple or mapping.
    """
    match value:
        case None | bool() | Secret():
            return value
        case _ if looks_secret(name):
            return HIDDEN
        case Mapping():
            of_addresses = _names_addresses(name)
            return {
                key: masked(name if of_addresses and not looks_secret(str(key)) else str(key), inner)
                for key, inner in value.items()
            }
        case list() | tuple() if _names_addresses(name):
            last = max((index for index, item in enumerate(value) if "@" in str(item)), default=0)
            return type(value)([HIDDEN] * last + [masked(name, item) for item in value[last:]])
        case list():
            return [masked(name, inner) for inner in value]
        case tuple():
            return tuple(masked(name, inner) for inner in value)
        case str() if _names_addresses(name):
            return masked_text(_BEFORE_HOST.sub(f"{MASK}@", value))
        case str():
            return masked_text(value)
    return value


def masked_text(text: str) -> str:
    """Return the text, for example an error of another program, with `***` in place of parts that may be secret."""
    return _IN_TEXT.sub(lambda match: f"{next(filter(None, match.groups()))}{MASK}", text)
