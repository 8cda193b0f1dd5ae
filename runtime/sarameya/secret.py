"""Secrets that are never shown, and the masking of values that look like one. Pure, except for reading secrets.

Secrets may come from the environment or from files. The words of a name show that it is secret, even mistyped ones: a
message about `sasl.pasword` does not contain the password.
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
    """Return whether the text can be encoded.

    Text that Python reads from the environment or a command line may contain bytes that are not text (as surrogates).
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


@final
class Secret:
    """A text that is never shown: `repr`, `str` and formatting give `***`; only `reveal()` gives the text.

    It is not a string, so that nothing joins or writes it by accident, and JSON refuses it. Pickling includes the
    value, so that other processes can get it.
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
        """Return the secret that `text` names.

        `env:NAME` is the value of an environment variable, `file:PATH` the content of a file (read now, without its
        last line break), any other text the secret itself. Raises ValueError, which does not show the text.
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
"""Placeholder of a secret, without a content."""


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
    """Return a file's text without its last line break, which editors and `echo` add. Raises ValueError."""
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
"""Matches in a name without its separators."""
_SECRET_WORDS = ("pass", "pwd", "sas", "auth")
_MISTYPED = ("password", "passphrase", "secret", "token", "credentials")
_LIKENESS = 0.84
_PLACES = {"file", "path", "location", "url", "uri", "class", "type", "provider", "ms", "seconds"}
"""Last words of names of a secret's place, or another fact about it."""
_ADDRESSES = ("server", "servers", "broker", "brokers", "brokerlist")
_BEFORE_HOST = re.compile(r".*@", re.DOTALL)
"""Everything up to the last `@`, which is hidden, also in a list.

The message about `user:password@host:9092`, which is not an address, must not show the password, which may have a comma
in it.
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
      | (?P<bearer> \bbearer\s+ ) (?= [\w.~+/=-]*\d | [\w.~+/=-]{20} ) [\w.~+/=-]{8,}  # and not the word after it

        # After a host name comes its port, if it ends as one: a password may contain "/" or "@".
      | (?P<user> (?<![a-z0-9+.-])[a-z0-9+.-]+://[^\s/@:]*: ) (?!\d{1,5}(?:[/?\#,\s]|$)) (?:(?!://)\S)+(?=@)
      | (?P<scheme> (?<![a-z0-9+.-])[a-z0-9+.-]+:// ) [^\s/:]+(?=@)
    """,
    re.IGNORECASE | re.VERBOSE,
)


def looks_secret(name: str) -> bool:
    """Return whether a value of this name may be a password, a key or the like."""
    words = [word.lower() for word in _WORD.findall(name)]
    if not words or words[-1] in _PLACES:
        return False
    return bool(
        _SECRET.search("".join(words))
        or any(word in _SECRET_WORDS or difflib.get_close_matches(word, _MISTYPED, 1, _LIKENESS) for word in words)
    )


def _names_addresses(name: str) -> bool:
    """Return whether a value of this name may be brokers' addresses."""
    parts = ["".join(_WORD.findall(part)).lower() for part in name.split(".")]
    return "".join(parts).endswith(_ADDRESSES) or any(
        difflib.get_close_matches("".join(parts[-last:]), ["bootstrapservers"], 1, _LIKENESS) for last in (1, 2)
    )


def masked(name: str, value: Any) -> Any:
    """Return `value` as it may be shown under `name`, with a Secret in place of each part that looks like one."""
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
            last = max((index for index, one in enumerate(value) if "@" in str(one)), default=0)
            return type(value)([HIDDEN] * last + [masked(name, one) for one in value[last:]])
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
    """Return the text with `***` in place of the parts that look secret, for texts of other programs."""
    return _IN_TEXT.sub(lambda match: f"{next(filter(None, match.groups()))}{MASK}", text)
