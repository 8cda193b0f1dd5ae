from __future__ import annotations

from pathlib import Path

from sarameya_handlers.landing.directory.schemas import Schemas, StoredSchema
from sarameya_handlers.landing.stores.local import LocalStore


def test_newest_schema_is_used(tmp_path: Path) -> None:
    schemas = Schemas(LocalStore(tmp_path))
    assert schemas.newest() is None
    assert not (tmp_path / "_sarameya" / "schemas").exists()
    for schema in (StoredSchema(1, "one"), StoredSchema(2, "zwölf")):
        assert schemas.put(schema)
        assert Schemas(LocalStore(tmp_path)).newest() == schema


def test_schema_number_in_use_is_not_overwritten(tmp_path: Path) -> None:
    schemas = Schemas(LocalStore(tmp_path))
    assert schemas.put(StoredSchema(1, "mine"))
    assert not Schemas(LocalStore(tmp_path)).put(StoredSchema(1, "theirs"))
    assert schemas.newest() == StoredSchema(1, "mine")
    assert [path.name for path in (tmp_path / "_sarameya" / "schemas").iterdir()] == [f"{1:020d}.json"]


def test_unfinished_schema_file_is_listed(tmp_path: Path) -> None:
    schemas = Schemas(LocalStore(tmp_path))
    schemas.put(StoredSchema(1, "one"))
    (tmp_path / "_sarameya" / "schemas" / ".put-x").touch()
    assert list(schemas.unfinished()) == ["_sarameya/schemas/.put-x"]
    assert schemas.newest() == StoredSchema(1, "one")
