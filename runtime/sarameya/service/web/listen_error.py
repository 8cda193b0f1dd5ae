"""Errors of listening at an address: passing, or permanent."""

from __future__ import annotations

import errno
import socket

from sarameya.errors import ConfigError, SarameyaError

_PASSING = {errno.EADDRINUSE, errno.EADDRNOTAVAIL, errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM}
"""Errors that may pass: the port's owner ends, an address comes up later than the service, memory is freed."""


class ListenError(SarameyaError):
    """The address cannot be listened at now. A later attempt may succeed."""


def listen_error(option: str, address: str, error: OSError | UnicodeError) -> SarameyaError:
    """Return the error to raise: ListenError if it may pass, else ConfigError.

    Args:
        option: The option that gives the address.
        address: HOST:PORT.
        error: The failure. A host name that is too long for IDNA's codec is a UnicodeError.
    """
    allowed = f"cannot be listened at: {getattr(error, 'strerror', None) or error}"
    if _may_pass(error):
        return ListenError(f"{option} = {address!r}: {allowed}")
    return ConfigError(option, address, allowed)


def _may_pass(error: OSError | UnicodeError) -> bool:
    if isinstance(error, socket.gaierror):  # its errno is an EAI_ code
        return error.errno == socket.EAI_AGAIN
    return isinstance(error, OSError) and error.errno in _PASSING
