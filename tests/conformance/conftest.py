"""Shared fixtures of the suite: each contender in turn, a new place for each test, and one Connect server."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conformance.contenders import Contender, Place, shared
from tests.integration.connect_server import ConnectServer
from tests.integration.lakes import lake_properties


@pytest.fixture(params=shared())
def contender(request: pytest.FixtureRequest) -> Contender:
    """Each but those that start a JVM in each member; tests that are for these name them (`each`)."""
    found: Contender = request.param
    return found


@pytest.fixture
def place(contender: Contender, tmp_path: Path, request: pytest.FixtureRequest) -> Place:
    if not contender.needs_server:
        return Place(tmp_path)
    server: ConnectServer = request.getfixturevalue("server")
    return Place(tmp_path, server.url, request.getfixturevalue("warehouse"))


@pytest.fixture(scope="session")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("conformance-warehouse")


@pytest.fixture(scope="session")
def _server(warehouse: Path) -> Iterator[ConnectServer]:
    missing = [program for program in ("java", "mvn") if shutil.which(program) is None]
    if missing:
        pytest.skip(f"needs {' and '.join(missing)} (make test says how to get them)")
    with ConnectServer(warehouse, lake_properties(warehouse)) as server:
        yield server


@pytest.fixture
def server(_server: ConnectServer) -> ConnectServer:
    """Return a running server, whatever the last test has done to it."""
    if _server.is_running:
        _server.thaw()
    else:
        _server.start()
    return _server


@pytest.fixture
def unsynced(monkeypatch: pytest.MonkeyPatch) -> None:
    """Skip fsync: for tests without power failures that land hundreds of times."""
    monkeypatch.setattr("os.fsync", lambda descriptor: None)
