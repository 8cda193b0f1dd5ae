"""Options of docs/tables.md are accepted unchanged, and its lists are complete."""

from __future__ import annotations

import ast
import inspect
import re
import tomllib
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from sarameya_handlers import SparkSink
from sarameya_handlers.spark.options import spark_options
from sarameya_handlers.spark.sink.options import LAYOUT, OTHERS, PLAIN, sink_arguments, table_of
from sarameya_handlers.spark.tables.table import Layout
from sarameya_handlers.spark.tables.topic_tables import TopicTables
from tests.docs.pages import blocks, page

ROOT = Path(__file__).parents[2]
PAGE = page("tables")
*BLOCKS, TOPICS_BLOCK, EXAMPLE_BLOCK = blocks(PAGE, "toml")
ROWS = dict(re.findall(r"^\| `(\w+)` \| (.*?) \|", PAGE, re.MULTILINE))


@pytest.mark.parametrize("block", BLOCKS, ids=["parquet", "parquet:s3", "delta", "delta:s3", "iceberg", "iceberg:rest"])
def test_app_file_options_make_a_sink(block: str, request: pytest.FixtureRequest) -> None:
    options: dict[str, Any] = tomllib.loads(block)["handler"]["options"]
    kind = request.node.callspec.id
    table = sink_arguments(options)["table"]
    assert table.name.startswith(f"{kind.removesuffix(':rest')}:")
    # As the page says: the supervisor of several workers starts one Spark for them.
    takes_one = table.takes_one_driver(spark_options(options.get("spark", {})).properties)
    assert takes_one == (kind in ("delta", "iceberg"))


def test_app_file_lands_each_topic_in_its_table() -> None:
    tables = table_of(tomllib.loads(TOPICS_BLOCK)["handler"]["options"])
    assert isinstance(tables, TopicTables)
    names = [tables(topic).name for topic in ("shop.orders", "shop.payments")]
    assert names == ["parquet:s3://lake/raw/shop.orders", "delta:s3://lake/finance/payments"]


def test_page_has_the_example_that_is_tested() -> None:
    assert (ROOT / "examples" / "lake.toml").read_text() == EXAMPLE_BLOCK


def test_packages_equal_those_of_the_tests() -> None:
    lakes = ROOT / "tests" / "integration" / "lakes"
    tested = _dependencies(lakes / "pom.xml") | _dependencies(lakes / "iceberg_aws" / "pom.xml")
    lists = re.findall(r'"spark\.jars\.packages" = "(.*?)"', PAGE)
    named = {package for packages in lists for package in packages.split(",")}
    assert len(named) == 3
    assert named <= tested


def _dependencies(file: Path) -> set[str]:
    pom, namespace = ElementTree.parse(file), {"m": "http://maven.apache.org/POM/4.0.0"}
    properties = {f"${{{one.tag.partition('}')[2]}}}": one.text for one in pom.find("m:properties", namespace) or ()}
    return {
        f"{one.findtext('m:groupId', '', namespace)}:{one.findtext('m:artifactId', '', namespace)}:"
        f"{properties.get(one.findtext('m:version', '', namespace))}"
        for one in pom.iterfind(".//m:dependency", namespace)
    }


def test_every_option_is_documented() -> None:
    assert set(ROWS) == {*PLAIN, *LAYOUT, *OTHERS}


def test_defaults_equal_the_code() -> None:
    arguments = inspect.signature(SparkSink).parameters
    layout = {name: getattr(Layout(), name) for name in LAYOUT}
    for name in (*PLAIN, *LAYOUT):
        documented = ROWS[name].strip("`")
        shown = None if documented == "none" else ast.literal_eval(documented.replace("false", "False"))
        default = layout.get(name, arguments[name].default if name in arguments else None)
        assert shown == (list(default) if isinstance(default, tuple) else default), name
