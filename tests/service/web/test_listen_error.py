"""Failures to listen: passing and permanent ones."""

from __future__ import annotations

import errno
import os
import socket

import pytest

from sarameya.errors import ConfigError
from sarameya.service.output.error_report import ExitCode, exit_code
from sarameya.service.web.listen_error import ListenError, listen_error


def refused(number: int) -> OSError:
    return OSError(number, os.strerror(number))


@pytest.mark.parametrize(
    "error",
    [
        refused(errno.EADDRINUSE),
        refused(errno.EADDRNOTAVAIL),
        refused(errno.EMFILE),
        socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution"),
    ],
)
def test_passing_error_is_a_failure(error: OSError) -> None:
    converted = listen_error("http", "a:80", error)
    assert type(converted) is ListenError
    assert (str(converted), exit_code(converted)) == (
        f"http = 'a:80': cannot be listened at: {error.strerror}",
        ExitCode.FAILURE,
    )


@pytest.mark.parametrize(
    "error",
    [
        refused(errno.EACCES),
        refused(errno.EINVAL),
        socket.gaierror(socket.EAI_NONAME, "Name or service not known"),
        socket.gaierror(errno.EADDRINUSE, "the number of another kind of error"),
        UnicodeError("label too long"),
    ],
)
def test_permanent_error_is_an_error_of_the_configuration(error: OSError | UnicodeError) -> None:
    converted = listen_error("http", "a:80", error)
    assert type(converted) is ConfigError
    why = getattr(error, "strerror", None) or str(error)
    assert (str(converted), exit_code(converted)) == (
        f"http = 'a:80': cannot be listened at: {why}",
        ExitCode.CONFIGURATION,
    )
