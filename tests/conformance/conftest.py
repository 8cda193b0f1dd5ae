"""Shared fixtures of the suite: each contender, a new place for each test, and one Connect server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conformance.contenders import Contender, Place, shared
from tests.integration.connect_server import ConnectServer
from tests.integration.lakes import lake_properties
from tests.integration.lakes.catalogs import rest_catalog
from tests.integration.needed import need
from tests.integration.object_stores.fixtures import azurite, gateway
from tests.integration.object_stores.gateway import Gateway
from tests.integration.object_stores.server import StoreServer

__all__ = ["azurite", "gateway"]  # fixtures


@pytest.fixture(params=shared())
def contender(request: pytest.FixtureRequest) -> Contender:
    """Return each contender except for classic Spark. A test for classic Spark names its contenders (`each`)."""
    contender: Contender = request.param
    return contender


@pytest.fixture
def place(
    contender: Contender, tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Place:
    bucket = ""
    if contender.cloud is not None:
        store: StoreServer = request.getfixturevalue(contender.cloud)
        store.set_environment(monkeypatch)
        bucket = store.make_bucket()
    if not contender.needs_server:
        return Place(tmp_path, bucket=bucket)
    server: ConnectServer = request.getfixturevalue("_s3_server" if contender.cloud is not None else "server")
    return Place(tmp_path, server.url, request.getfixturevalue("warehouse"), bucket)


@pytest.fixture(scope="session")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("conformance-warehouse")


@pytest.fixture(scope="session")
def _server(warehouse: Path) -> Iterator[ConnectServer]:
    need("java", "mvn")
    with ConnectServer(warehouse, lake_properties(warehouse)) as server:
        yield server


@pytest.fixture(scope="session")
def _s3_server(gateway: Gateway, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConnectServer]:
    """A server whose Iceberg catalog is a REST server, with its tables on S3."""
    directory = tmp_path_factory.mktemp("conformance-s3")
    with pytest.MonkeyPatch.context() as patch, rest_catalog(directory, gateway) as catalog:
        gateway.set_environment(patch)
        with ConnectServer(directory, lake_properties(directory, iceberg=catalog)) as server:
            yield server


@pytest.fixture
def server(_server: ConnectServer) -> ConnectServer:
    """Return the running server, restarted or thawed if the last test has killed or frozen it."""
    if _server.is_running:
        _server.thaw()
    else:
        _server.start()
    return _server


@pytest.fixture
def unsynced(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace fsync by nothing, for tests that land hundreds of times and simulate no power failure."""
    monkeypatch.setattr("os.fsync", lambda descriptor: None)
