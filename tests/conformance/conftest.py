"""Shared fixtures of the suite: each contender, a new place for each test, and one Connect server."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conformance.contenders import Cloud, Contender, Place, shared
from tests.integration.connect_server import ConnectServer
from tests.integration.lakes import lake_properties
from tests.integration.lakes.catalogs import rest_catalog
from tests.integration.object_stores.azurite import Azurite
from tests.integration.object_stores.gateway import Gateway


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
    if contender.cloud is Cloud.S3:
        gateway: Gateway = request.getfixturevalue("gateway")
        gateway.set_environment(monkeypatch)
        bucket = gateway.make_bucket()
    elif contender.cloud is Cloud.AZURE:
        azurite: Azurite = request.getfixturevalue("azurite")
        azurite.set_environment(monkeypatch)
        bucket = azurite.make_container()
    if not contender.needs_server:
        return Place(tmp_path, bucket=bucket)
    server: ConnectServer = request.getfixturevalue("_s3_server" if contender.cloud is not None else "server")
    return Place(tmp_path, server.url, request.getfixturevalue("warehouse"), bucket)


@pytest.fixture(scope="session")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """A gateway that speaks S3's protocol. Each test has a bucket."""
    if shutil.which("go") is None:
        pytest.skip("needs go (`make test` prints how to install it)")
    with Gateway(tmp_path_factory.mktemp("gateway")) as gateway:
        yield gateway


@pytest.fixture(scope="session")
def azurite(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Azurite]:
    """An emulator of Azure Blob Storage. Each test has a container."""
    if shutil.which("npm") is None:
        pytest.skip("needs npm (`make test` prints how to install it)")
    with Azurite(tmp_path_factory.mktemp("azurite")) as azurite:
        yield azurite


@pytest.fixture(scope="session")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("conformance-warehouse")


@pytest.fixture(scope="session")
def _server(warehouse: Path) -> Iterator[ConnectServer]:
    missing = [program for program in ("java", "mvn") if shutil.which(program) is None]
    if missing:
        pytest.skip(f"needs {' and '.join(missing)} (`make test` prints how to install them)")
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
