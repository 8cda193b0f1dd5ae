"""A PostgreSQL server of the tests' own, from Debian's package."""

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
"""Where Debian has the servers of each version, which are not on PATH."""
_PATIENCE = 60
"""Seconds in which the server starts or ends."""


def postgres_program(name: str) -> str | None:
    """Return the path of a server's program, of the newest version; None if there is none."""
    versions = sorted(Path(_PLACES).glob("*/bin"), key=lambda path: float(path.parent.name))
    path = os.pathsep.join([*map(str, reversed(versions)), os.environ.get("PATH", os.defpath)])
    return shutil.which(name, path=path)


@contextmanager
def postgres() -> Iterator[str]:
    """Run a server without any data, and yield where it is: `USER@HOST:PORT/DATABASE`."""
    initdb, pg_ctl = postgres_program("initdb"), postgres_program("pg_ctl")
    assert initdb is not None
    assert pg_ctl is not None
    (port,) = free_ports(1)
    # The server refuses to run as root; then its directory must be one that another user reaches.
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
    # To a file, not to a pipe: the server inherits it.
    subprocess.run([*map(str, command)], check=True, stdout=subprocess.DEVNULL, user=user, cwd="/")
