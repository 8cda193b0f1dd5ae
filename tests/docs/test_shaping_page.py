"""Options of docs/shaping.md are accepted unchanged."""

from __future__ import annotations

import re
import tomllib
from typing import Any

import attrs
import pytest

from sarameya import ConfigError
from sarameya.registry.client import LOOK_AGAIN_AFTER
from sarameya.registry.options import RegistryOptions
from sarameya_handlers import SparkSink
from sarameya_handlers.spark.shaping.decode_options import FORMATS
from sarameya_handlers.spark.shaping.shaping import SHAPING_OPTIONS, Shaping
from sarameya_handlers.spark.tables.table import Layout
from tests.docs.pages import blocks, page

PAGE = page("shaping")


def options_of(block: int) -> dict[str, Any]:
    shown: dict[str, Any] = tomllib.loads(blocks(PAGE, "toml")[block])["handler"]["options"]
    return shown


@pytest.fixture(scope="module")
def options() -> dict[str, Any]:
    return options_of(0)


def test_variant_options_make_a_sink() -> None:
    assert SparkSink.from_options(options_of(1))
    assert "parse_json" in str(options_of(1)["transform_sql"])


def test_app_file_options_make_a_sink(options: dict[str, Any]) -> None:
    assert SparkSink.from_options(options)
    shaping = Shaping.from_options(options)
    assert (shaping.value.format, shaping.value.framed) == ("avro", True)


def test_table_lists_every_format() -> None:
    assert tuple(re.findall(r'^\| `"(\w+)"` \|', PAGE, re.MULTILINE)) == FORMATS


def test_named_options_exist() -> None:
    named = set(re.findall(r"`((?:key|value)_\w+|transform\w*|flatten|registry\.\w+)\b", PAGE)) - {"transform"}
    known = {*SHAPING_OPTIONS, *(f"registry.{field.name}" for field in attrs.fields(RegistryOptions))}
    assert {"key_format", "value_version", "value_schema_file", "transform_sql", "registry.token"} <= named
    assert named - known == set()


def test_figures_equal_the_code() -> None:
    assert LOOK_AGAIN_AFTER == 3.0
    assert RegistryOptions(url="http://r").timeout == 10.0
    assert Layout().max_partitions == 100
    assert not Layout().evolve_schema


def test_python_is_a_transform() -> None:
    names: dict[str, Any] = {}
    exec("\n".join(blocks(PAGE, "python")), names)
    assert Shaping(transform=names["shaped"])


def test_both_transforms_at_once_are_refused() -> None:
    with pytest.raises(ConfigError):
        Shaping(transform=lambda batch: batch, transform_sql="select * from batch")
