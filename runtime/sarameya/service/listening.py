"""An address that cannot be listened at: whether that may pass, or something has to be changed. Pure."""

from __future__ import annotations

import errno
import socket

from sarameya.errors import ConfigError, SarameyaError

_PASSING = {errno.EADDRINUSE, errno.EADDRNOTAVAIL, errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM}
"""Who has the port may end, an address may come up later than we, and so may room."""


class ListenError(SarameyaError):
    """An address cannot be listened at now; the same again may succeed."""


def refusal(option: str, address: str, error: OSError | UnicodeError) -> SarameyaError:
    """What is to be raised where `error` came of listening at the HOST:PORT that `option` says: ListenError where that
    may pass, else ConfigError. A host's name that is none (one too long for IDNA's codec) is a UnicodeError."""
    allowed = f"cannot be listened at: {getattr(error, 'strerror', None) or error}"
    if _may_pass(error):
        return ListenError(f"{option} = {address!r}: {allowed}")
    return ConfigError(option, address, allowed)


def _may_pass(error: OSError | UnicodeError) -> bool:
    if isinstance(error, socket.gaierror):  # whose numbers are others
        return error.errno == socket.EAI_AGAIN
    return isinstance(error, OSError) and error.errno in _PASSING
