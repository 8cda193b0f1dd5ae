"""Shaping options, and errors that are found without Spark."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from sarameya import ConfigError
from sarameya_handlers.landing.links import ChainKey, Link, Origin
from sarameya_handlers.spark.errors import LandingError
from sarameya_handlers.spark.shaping.decode_options import Decode
from sarameya_handlers.spark.shaping.errors import ShapeError
from sarameya_handlers.spark.shaping.shaping import Shaping
from sarameya_handlers.spark.tables.staging import StagedFile
from sarameya_handlers.spark.tables.table import Landing
from tests.handlers.kit import batch
from tests.handlers.spark.kit import FakeFrame, FakeSpark

REGISTRY = {"url": "http://127.0.0.1:1"}


def staged(directory: Path) -> Landing:
    import pyarrow.parquet as pq

    file = directory / "staged.parquet"
    pq.write_table(batch(0, 3).to_arrow(), file)
    key = ChainKey("sink", "orders", 0)
    link = Link(key=key, number=1, from_offset=0, to_offset=3, attempt="a", origin=Origin(group="g"))
    return Landing(link=link, staged=StagedFile(file), records=3)


def test_default_shaping_leaves_records_unchanged() -> None:
    assert Shaping.from_options({"path": "x"}) == Shaping()
    assert Shaping().is_plain


@pytest.mark.parametrize(
    "options",
    [
        {"value_format": "string"},
        {"key_format": "json", "key_schema": "id bigint"},
        {"transform": "tests.handlers.spark.transforms:values"},
        {"transform_sql": "select * from batch"},
        {"value_format": "avro", "registry": REGISTRY},
    ],
)
def test_shaping_with_any_option_is_not_plain(options: dict[str, Any]) -> None:
    assert not Shaping.from_options(options).is_plain


def test_key_and_value_have_their_own_options() -> None:
    shaping = Shaping.from_options(
        {
            "key_format": "string",
            "value_format": "avro",
            "value_subject": "s",
            "value_version": 2,
            "registry": REGISTRY,
            "flatten": True,
        }
    )
    assert shaping.key == Decode(format="string")
    assert shaping.value == Decode(format="avro", subject="s", version=2, framed=True)
    assert shaping.flatten


@pytest.mark.parametrize(
    ("options", "named", "expected"),
    [
        ({"transform": "a:b", "transform_sql": "select 1"}, "transform", "cannot import"),
        (
            {"transform": "tests.handlers.spark.transforms:values", "transform_sql": "select 1"},
            "transform_sql",
            "must not be set with transform",
        ),
        ({"transform_sql": " "}, "transform_sql", "must be a query"),
        ({"transform_sql": 5}, "transform_sql", "must be a query"),
        ({"flatten": 1}, "flatten", "must be true or false"),
        ({"flatten": True}, "flatten", "needs a value with fields, and its format is 'bytes'"),
        ({"flatten": True, "value_format": "string"}, "flatten", "needs a value with fields"),
        ({"registry": REGISTRY}, "registry", "must not be set unless a format is"),
        ({"registry": REGISTRY, "value_format": "string"}, "registry", "must not be set unless a format is"),
        ({"registry": {}, "value_format": "avro"}, "registry.url", "is required"),
        ({"value_format": "avro"}, "value_schema", "unless there is a registry"),
    ],
)
def test_invalid_option_is_refused_by_name(options: dict[str, Any], named: str, expected: str) -> None:
    with pytest.raises(ConfigError, match=expected) as raised:
        Shaping.from_options(options)
    assert raised.value.option == named


def test_framed_column_needs_a_registry() -> None:
    with pytest.raises(ConfigError, match="is required to decode the key"):
        Shaping(key=Decode(format="avro", framed=True))


def test_staged_file_hidden_from_spark_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(LandingError, match="Spark does not see the staged file"):
        Shaping().frame(FakeSpark(sees_files=False), staged(tmp_path))  # type: ignore[arg-type]


@pytest.mark.parametrize(("made", "expected"), [(5, "int"), (None, "NoneType"), ([], "list")])
def test_transform_without_a_frame_is_refused(tmp_path: Path, made: Any, expected: str) -> None:
    shaping = Shaping(transform=lambda _: made)
    with pytest.raises(ShapeError, match=f"transform must return a DataFrame, not {expected}"):
        shaping.frame(FakeSpark(), staged(tmp_path))  # type: ignore[arg-type]


def test_transform_error_is_one_line_and_permanent(tmp_path: Path) -> None:
    def transform(_: Any) -> Any:
        raise KeyError("price\nand more")

    with pytest.raises(ShapeError, match="transform fails: KeyError: ") as raised:
        Shaping(transform=transform).frame(FakeSpark(), staged(tmp_path))  # type: ignore[arg-type]
    assert not raised.value.retriable
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("error", [ConnectionResetError("gone"), LandingError("of its own")])
def test_passing_error_in_a_transform_is_raised_unchanged(tmp_path: Path, error: Exception) -> None:
    def transform(_: Any) -> Any:
        raise error

    with pytest.raises(type(error)) as raised:
        Shaping(transform=transform).frame(FakeSpark(), staged(tmp_path))  # type: ignore[arg-type]
    assert raised.value is error


def test_rows_come_from_the_transform(tmp_path: Path) -> None:
    shaping = Shaping(transform=lambda frame: FakeFrame(frame.table.slice(2)))  # type: ignore[attr-defined,arg-type,return-value]
    frame: Any = shaping.frame(FakeSpark(), staged(tmp_path))  # type: ignore[arg-type]
    assert frame.table["offset"].to_pylist() == [2]


def test_options_are_parsed_without_heavy_imports() -> None:
    program = (
        "import sys\n"
        "from sarameya_handlers.spark.shaping.shaping import Shaping\n"
        "Shaping.from_options({'value_format': 'avro', 'key_format': 'json', 'key_schema': 'a int',"
        " 'key_header': 'none', 'registry': {'url': 'http://r'}})\n"
        "print([name for name in ('pyspark', 'pyarrow', 'google.protobuf', 'grpc_tools') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
