"""Failures to listen: passing ones, and those that need a change."""

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
def test_what_may_pass_is_worth_a_restart(error: OSError) -> None:
    told = listen_error("http", "a:80", error)
    assert type(told) is ListenError
    assert (str(told), exit_code(told)) == (f"http = 'a:80': cannot be listened at: {error.strerror}", ExitCode.FAILURE)


@pytest.mark.parametrize(
    "error",
    [
        refused(errno.EACCES),
        refused(errno.EINVAL),
        socket.gaierror(socket.EAI_NONAME, "Name or service not known"),
        socket.gaierror(errno.EADDRINUSE, "a number of theirs"),
        UnicodeError("label too long"),
    ],
)
def test_anything_else_is_to_be_changed(error: OSError | UnicodeError) -> None:
    told = listen_error("http", "a:80", error)
    assert type(told) is ConfigError
    why = getattr(error, "strerror", None) or str(error)
    assert (str(told), exit_code(told)) == (f"http = 'a:80': cannot be listened at: {why}", ExitCode.CONFIGURATION)
