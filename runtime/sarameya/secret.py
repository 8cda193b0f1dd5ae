"""Secrets: values that are held and never shown, and what looks like one wherever configuration is told. Pure, but
for the environment and the files that a secret may come from.

A name looks secret by its words, mistyped ones too: who writes `sasl.pasword` is told so without the password.
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
    """Whether it can be told to others: what Python reads from the environment or a command line may have bytes in it
    that are no text (as surrogates)."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


@final
class Secret:
    """A text that is not shown: `repr`, `str` and formatting give `***`, only `reveal()` the text.

    It is no string, so that nothing joins or writes it by accident; JSON refuses it. Pickled, it carries its value:
    that is how another process gets it.
    """

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        if not isinstance(value, str) or not value:
            raise ValueError("must be a string that is not empty")
        if not is_utf8(value):
            raise ValueError("must be text: it has bytes in it that are not UTF-8")
        self._value = value

    @classmethod
    def of(cls, text: str) -> Secret:
        """`env:NAME` is that environment variable's, `file:PATH` that file's (read now, without its last line break),
        any other text the secret itself. Raises ValueError, which does not show it."""
        kind, colon, rest = text.partition(":") if isinstance(text, str) else ("", "", "")
        match kind + colon:
            case "env:":
                return _of_environment(rest)
            case "file:":
                return _of_file(rest)
        return cls(text)

    def reveal(self) -> str:
        """The text."""
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
"""What is shown in place of a secret, and holds none."""


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
    """A file's text without its last line break, which editors and `echo` put there. Raises ValueError."""
    try:
        text = Path(path).read_bytes().decode()
    except OSError as error:
        raise ValueError(f"the file {path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:  # whose text has the bytes
        raise ValueError(f"the file {path} is not UTF-8 text") from None
    return text.removesuffix("\n").removesuffix("\r")


# -- what looks like one -------------------------------------------------------------------------

_SECRET = re.compile(
    r"passw(or)?d|passphrase|secret|token|credential|jaas|userinfo|authorization|cookie|connectionstring"
    r"|(api|access|private|account|shared|encryption|signing|keystore|tls|ssl)key"
)
"""In a name without what separates its words."""
_SECRET_WORDS = ("pass", "pwd", "sas", "auth")
_MISTYPED = ("password", "passphrase", "secret", "token", "credentials")
_LIKENESS = 0.84
_PLACES = {"file", "path", "location", "url", "uri", "class", "type", "provider", "ms", "seconds"}
"""A name that ends so says where a secret is, or something else about it."""
_ADDRESSES = ("server", "servers", "broker", "brokers", "brokerlist")
_BEFORE_HOST = re.compile(r".*@", re.DOTALL)
"""Who writes `user:password@host:9092` is told that it is no address without the password, which may have a comma in
it: nothing before the last `@` is shown, of a list neither."""
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

        # What is after a host's name is its port, if it ends as one: a password may have a "/" or an "@" in it.
      | (?P<user> (?<![a-z0-9+.-])[a-z0-9+.-]+://[^\s/@:]*: ) (?!\d{1,5}(?:[/?\#,\s]|$)) (?:(?!://)\S)+(?=@)
      | (?P<scheme> (?<![a-z0-9+.-])[a-z0-9+.-]+:// ) [^\s/:]+(?=@)
    """,
    re.IGNORECASE | re.VERBOSE,
)


def looks_secret(name: str) -> bool:
    """Whether what stands under this name may be a password, a key or the like."""
    words = [word.lower() for word in _WORD.findall(name)]
    if not words or words[-1] in _PLACES:
        return False
    return bool(
        _SECRET.search("".join(words))
        or any(word in _SECRET_WORDS or difflib.get_close_matches(word, _MISTYPED, 1, _LIKENESS) for word in words)
    )


def _names_addresses(name: str) -> bool:
    """Whether what stands under this name may be brokers' addresses."""
    parts = ["".join(_WORD.findall(part)).lower() for part in name.split(".")]
    return "".join(parts).endswith(_ADDRESSES) or any(
        difflib.get_close_matches("".join(parts[-last:]), ["bootstrapservers"], 1, _LIKENESS) for last in (1, 2)
    )


def masked(name: str, value: Any) -> Any:
    """`value`, as it may be shown under `name`: itself, or with a Secret in place of all in it that looks like one."""
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
    """A text, of others' making, say, with `***` in place of what looks secret in it."""
    return _IN_TEXT.sub(lambda match: f"{next(filter(None, match.groups()))}{MASK}", text)
