"""Fixtures of object stores, for the conftest.py of each folder that has tests with them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.integration.needed import need
from tests.integration.object_stores.azurite import Azurite
from tests.integration.object_stores.gateway import Gateway


@pytest.fixture(scope="session")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """A gateway that speaks S3's protocol. Tests share it: each has a bucket."""
    need("go")
    with Gateway(tmp_path_factory.mktemp("gateway")) as gateway:
        yield gateway


@pytest.fixture(scope="session")
def azurite(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Azurite]:
    """An emulator of Azure Blob Storage. Tests share it: each has a container."""
    need("npm")
    with Azurite(tmp_path_factory.mktemp("azurite")) as azurite:
        yield azurite
