"""A Parquet table in Azure Blob Storage, whose files are published through this process."""

from __future__ import annotations

from pathlib import Path

import polars
import pytest

from sarameya_handlers import ParquetTable, StoreOptions
from sarameya_handlers.landing.chain import Outcome
from sarameya_handlers.spark.shaping.shaping import Shaping
from tests.conformance.invariants import offsets, prove_audit, prove_chain, prove_rows
from tests.conformance.owners import KEY, Owner
from tests.integration.object_stores.azurite import ACCOUNT, Azurite
from tests.integration.object_stores.azurite import KEY as ACCOUNT_KEY

pytestmark = pytest.mark.integration


@pytest.fixture
def table(azurite: Azurite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ParquetTable:
    azurite.set_environment(monkeypatch)
    return ParquetTable(f"{azurite.make_bucket()}/lake/orders", store=StoreOptions(trusted=True), staging=tmp_path)


def test_one_owner_appends_each_link(table: ParquetTable, azurite: Azurite) -> None:
    table.open(None)  # type: ignore[arg-type]
    owner, other = (Owner(table, None, Shaping()) for _ in range(2))
    assert owner.append(5).outcome is Outcome.LANDED
    assert other.append(5).outcome is Outcome.LOST, "to this owner the chain is still empty"
    assert other.append(5).outcome is Outcome.LANDED
    prove_chain(table, None, KEY, 10)
    prove_rows(table, None, offsets({KEY: 10}))
    prove_audit(table, None)
    options = {"account_name": ACCOUNT, "account_key": ACCOUNT_KEY, "endpoint": azurite.endpoint, "allow_http": "true"}
    read = polars.read_parquet(f"{table.store.place}/*.parquet", storage_options=options)
    assert sorted(read["offset"]) == [*range(10)]


@pytest.mark.parametrize("size", [0, 1, 3000])
def test_moved_object_has_all_bytes(table: ParquetTable, size: int) -> None:
    content = bytes(range(256)) * (size // 256 + 1)
    table.store.put_over("a/first", content[:size])
    table.store.move([("a/first", "b/second name=%3D")])
    assert table.store.get("b/second name=%3D") == content[:size]
    assert table.store.get("a/first") is None
    table.store.move([("a/first", "b/second name=%3D")])
    assert table.store.get("b/second name=%3D") == content[:size], "a file that is gone was moved by another process"


def test_objects_are_removed_although_one_is_gone(table: ParquetTable, monkeypatch: pytest.MonkeyPatch) -> None:
    names = [f"a/{number:03}" for number in range(600)]
    for name in names[::2]:
        table.store.put_over(name, b"x")
    monkeypatch.setattr(table.store, "names", lambda directory: iter(names))
    table.store.remove("a")
    monkeypatch.undo()
    assert not table.store.has_files("a")
