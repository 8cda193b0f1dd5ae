"""A PostgreSQL server for tests, from Debian's package."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.integration.real_kafka.node import free_ports

_PLACES = "/usr/lib/postgresql"
"""Debian's directory of the servers of each version, which are not on PATH."""
_PATIENCE = 60
"""Longest time in seconds for the server to start or to stop."""


def postgres_program(name: str) -> str | None:
    """Return the path of the newest version of a server's program, or None."""
    versions = sorted(Path(_PLACES).glob("*/bin"), key=lambda path: float(path.parent.name))
    path = os.pathsep.join([*map(str, reversed(versions)), os.environ.get("PATH", os.defpath)])
    return shutil.which(name, path=path)


@contextmanager
def postgres() -> Iterator[str]:
    """Run a server without any data, and yield its address: `USER@HOST:PORT/DATABASE`."""
    initdb, pg_ctl = postgres_program("initdb"), postgres_program("pg_ctl")
    assert initdb is not None
    assert pg_ctl is not None
    (port,) = free_ports(1)
    # The server refuses to run as root; then another user must reach its directory.
    user = "postgres" if os.getuid() == 0 else None
    with tempfile.TemporaryDirectory(prefix="sarameya-postgres-") as name:
        if user is not None:
            shutil.chown(name, user)
        data, log = f"{name}/data", f"{name}/log"
        _run(user, initdb, "--pgdata", data, "--username", "sarameya", "--auth", "trust", "--no-sync")
        options = f"-c listen_addresses=127.0.0.1 -c port={port} -c fsync=off -c unix_socket_directories="
        start = ("--pgdata", data, "--log", log, "--wait", "--timeout", _PATIENCE)
        _run(user, pg_ctl, "start", *start, "--options", options)
        try:
            yield f"sarameya@127.0.0.1:{port}/postgres"
        finally:
            _run(user, pg_ctl, "stop", "--pgdata", data, "--mode", "immediate", "--timeout", _PATIENCE)


def _run(user: str | None, *command: object) -> None:
    # Not to a pipe: the server inherits its output, and would keep the pipe open.
    subprocess.run([*map(str, command)], check=True, stdout=subprocess.DEVNULL, user=user, cwd="/")
