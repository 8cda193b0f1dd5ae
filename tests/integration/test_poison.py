"""Bad records among good ones, found with a real Spark, in this process and behind Spark Connect."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import IntegerType

from sarameya.arrow import kafka_schema
from sarameya_handlers import LandingError
from sarameya_handlers.landing.links import ChainKey, Link, Origin
from sarameya_handlers.spark.poison.poison_search import Poison, dead_letters, find_poison
from sarameya_handlers.spark.shaping.decode_options import Decode
from sarameya_handlers.spark.shaping.shaping import Shaping
from sarameya_handlers.spark.tables.staging import Staging
from sarameya_handlers.spark.tables.table import PendingLink
from tests.integration.lake_stage import EITHER, either

pytestmark = [
    pytest.mark.integration,
    # py4j leaves its sockets to the garbage collector.
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]

COUNT = 300
FEW = 30
BAD = {7: b"abc", 8: b"", 211: b"9999999999999"}
"""Offsets with values that cannot be cast to an int."""

Transform = Callable[[DataFrame], DataFrame]


@pytest.fixture(scope="module", params=EITHER)
def spark(request: pytest.FixtureRequest) -> Iterator[Any]:
    with either(request, compiles=True) as session:
        yield session


def pending_link(values: dict[int, bytes | None]) -> PendingLink:
    rows = [
        {"key": b"k%d" % offset, "value": value, "topic": "orders", "partition": 0, "offset": offset}
        | {"timestamp": None, "timestampType": 0, "headers": [{"key": "h", "value": b"x"}]}
        for offset, value in values.items()
    ]
    link = Link(
        key=ChainKey("lake", "orders", 0),
        number=1,
        from_offset=0,
        to_offset=len(values),
        attempt="a" * 32,
        origin=Origin(group="g"),
    )
    return PendingLink(link, pa.Table.from_pylist(rows, kafka_schema()))


def numbers(bad: dict[int, bytes] = BAD) -> PendingLink:
    return pending_link({offset: b"%d" % offset for offset in range(COUNT)} | bad)


def search(spark: SparkSession, one: PendingLink, transform: Transform, staging: Path) -> Poison:
    jobs = 0

    def check() -> None:
        nonlocal jobs
        jobs += 1

    began = time.monotonic()
    poison = find_poison(spark, check, pending=one, staging=Staging(staging), shape=Shaping(transform=transform))
    print(f"{len(poison.bad)} of {COUNT} in {jobs} jobs, {time.monotonic() - began:.1f} s")
    assert list(staging.iterdir()) == []
    return poison


def cast(frame: DataFrame) -> DataFrame:
    return frame.selectExpr("cast(cast(value as string) as int) as number", "offset")


def from_json(frame: DataFrame) -> DataFrame:
    return frame.selectExpr("from_json(cast(value as string), 'a int', map('mode', 'FAILFAST')) as v", "offset")


def raise_error(frame: DataFrame) -> DataFrame:
    return frame.selectExpr("if(length(value) = 0, raise_error('it is empty'), length(value)) as n")


def in_python(frame: DataFrame) -> DataFrame:
    if type(frame).__module__.startswith("pyspark.sql.connect"):
        from pyspark.sql.connect.functions import udf
    else:
        from pyspark.sql.functions import udf

    def parse(value):  # no type hints: pyspark would derive the kind of function from them
        number = int(value)
        if number > 2**31:
            raise OverflowError(f"{number} is too large")
        return number

    return frame.select(udf(parse, IntegerType())("value").alias("number"))


def test_values_that_fail_a_cast_are_found(spark: SparkSession, tmp_path: Path) -> None:
    one = numbers()
    poison = search(spark, one, cast, tmp_path)

    assert list(poison.bad) == [7, 8, 211]
    assert all("CAST_INVALID_INPUT" in error or "CAST_OVERFLOW" in error for error in poison.bad.values())
    assert "'abc'" in poison.bad[7]
    assert "\n" not in "".join(poison.bad.values())
    assert poison.kept["offset"].to_pylist() == [n for n in range(COUNT) if n not in BAD]
    letters = dead_letters(one, poison)
    assert [(letter.offset, letter.key, letter.value) for letter in letters] == [
        (offset, b"k%d" % offset, value) for offset, value in BAD.items()
    ]
    assert letters[0].headers == (("h", b"x"),)


def test_records_failing_a_python_function_are_found(spark: SparkSession, tmp_path: Path) -> None:
    poison = search(spark, numbers(), in_python, tmp_path)

    assert list(poison.bad) == [7, 8, 211]
    assert poison.bad[211] == "PythonException: OverflowError: 9999999999999 is too large"
    assert "ValueError: invalid literal for int()" in poison.bad[7]


def test_invalid_json_is_found(spark: SparkSession, tmp_path: Path) -> None:
    values: dict[int, bytes | None] = {offset: b'{"a": %d}' % offset for offset in range(COUNT)}
    poison = search(spark, pending_link(values | {0: b"{", 299: b"\xff"}), from_json, tmp_path)
    assert list(poison.bad) == [0, 299]
    assert "MALFORMED_RECORD_IN_PARSING" in poison.bad[0]


def test_records_refused_by_a_query_are_found(spark: SparkSession, tmp_path: Path) -> None:
    poison = search(spark, numbers(), raise_error, tmp_path)
    assert list(poison.bad) == [8]
    assert "it is empty" in poison.bad[8]


def test_record_that_crashes_a_worker_is_found(spark: SparkSession, tmp_path: Path) -> None:
    def crashing(frame: DataFrame) -> DataFrame:
        if type(frame).__module__.startswith("pyspark.sql.connect"):
            from pyspark.sql.connect.functions import udf
        else:
            from pyspark.sql.functions import udf

        def crash(value):
            if value == b"abc":
                import os

                os._exit(3)
            return len(value)

        return frame.select(udf(crash, IntegerType())("value").alias("n"))

    poison = search(spark, numbers(), crashing, tmp_path)
    assert list(poison.bad) == [7]


def test_undecodable_records_are_not_searched(spark: SparkSession, tmp_path: Path) -> None:
    """The shape reports one record; bisection finds the other."""
    values: dict[int, bytes | None] = {offset: b'{"a": %d}' % offset for offset in range(COUNT)}
    shape = Shaping(
        value=Decode(format="json", schema="a int"), transform_sql="select 100 / (value.a - 42) as quotient from batch"
    )
    pending = pending_link(values | {7: b"no json"})
    poison = find_poison(spark, lambda: None, pending=pending, staging=Staging(tmp_path), shape=shape)

    assert list(poison.bad) == [7, 42]
    assert poison.bad[7].startswith("value: it cannot be decoded as json: no JSON: ")
    assert "DIVIDE_BY_ZERO" in poison.bad[42]


def test_batch_without_bad_records_has_no_findings(spark: SparkSession, tmp_path: Path) -> None:
    poison = search(spark, numbers({}), cast, tmp_path)
    assert poison.bad == {}
    assert poison.kept.num_rows == COUNT


def test_missing_column_is_an_error_without_dead_letters(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(LandingError, match=r"nocol") as caught:
        search(spark, numbers(), lambda frame: frame.select("nocol"), tmp_path)
    assert not caught.value.passes


def test_transform_failing_for_all_records_is_an_error(spark: SparkSession, tmp_path: Path) -> None:
    def wrong(frame: DataFrame) -> DataFrame:
        return frame.selectExpr("cast(concat('n', offset) as int) as number")

    # Few, since each bad record costs a job, up to half of the records.
    few = pending_link({offset: b"%d" % offset for offset in range(FEW)})
    with pytest.raises(LandingError, match=r"of 30 records cannot be shaped, and no more than 15.*CAST_INVALID_INPUT"):
        search(spark, few, wrong, tmp_path)
