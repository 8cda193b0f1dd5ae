"""Tables, stores and Sparks that cannot keep exact chains are refused with advice."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from sarameya import HandlerError
from sarameya_handlers.spark.delta.checks import (
    TableDetail,
    check_detail,
    check_session,
    check_store,
    has_shared_store,
    seconds_of,
)
from sarameya_handlers.spark.tables.table import Layout

DAY = 24 * 3600.0


class FakeSpark:
    """A session with settings, and one answer to all SQL."""

    def __init__(self, answer: Any = None, **settings: str) -> None:
        self._answer = answer
        self._settings = {name.replace("__", "."): value for name, value in settings.items()}
        self.conf = self

    def get(self, name: str, default: str | None) -> str | None:
        return self._settings.get(name, default)

    def sql(self, text: str) -> Any:
        if isinstance(self._answer, Exception):
            raise self._answer
        return SimpleNamespace(collect=lambda: [self._answer])


def row(**fields: Any) -> Any:
    plain = {
        "format": "delta", "location": "file:/data/t", "partitionColumns": [], "tableFeatures": [], "properties": {}
    }  # fmt: skip
    return SimpleNamespace(**{**plain, **fields})


def spark(**settings: str) -> Any:
    return FakeSpark(**settings)


def test_table_detail_is_read_from_delta() -> None:
    answer = row(partitionColumns=["day"], tableFeatures=["appendOnly"], properties={"a": "b"})
    assert TableDetail.load(FakeSpark(answer), "t") == TableDetail(  # type: ignore[arg-type]
        location="file:/data/t", partition_columns=("day",), features=("appendOnly",), properties={"a": "b"}
    )


@pytest.mark.parametrize(
    "text",
    [
        "[DELTA_MISSING_DELTA_TABLE] `/data/t` is not a Delta table.",
        "[TABLE_OR_VIEW_NOT_FOUND] The table or view `t` cannot be found. SQLSTATE: 42P01",
    ],
)
def test_missing_table_has_no_detail(text: str) -> None:
    assert TableDetail.load(FakeSpark(RuntimeError(text)), "t") is None  # type: ignore[arg-type]


def test_spark_without_delta_is_refused_with_advice() -> None:
    error = RuntimeError("[PARSE_SYNTAX_ERROR] Syntax error at or near 'DETAIL'")
    with pytest.raises(HandlerError, match=r"(?s)io\.delta:delta-spark.*DeltaSparkSessionExtension"):
        TableDetail.load(FakeSpark(error), "t")  # type: ignore[arg-type]


def test_other_errors_are_raised() -> None:
    with pytest.raises(RuntimeError, match="no room"):
        TableDetail.load(FakeSpark(RuntimeError("no room")), "t")  # type: ignore[arg-type]


def test_table_of_another_format_is_refused() -> None:
    with pytest.raises(HandlerError, match="format parquet"):
        TableDetail.load(FakeSpark(row(format="parquet")), "t")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("interval", "seconds"),
    [
        ("interval 30 days", 30 * DAY),
        ("interval 1 week 2 days", 9 * DAY),
        ("INTERVAL 90 Minutes", 5400.0),
        ("36 hours", 1.5 * DAY),
        ("interval 1 hour 500 milliseconds", 3600.5),
    ],
)
def test_interval_is_converted_to_seconds(interval: str, seconds: float) -> None:
    assert seconds_of(interval) == seconds


@pytest.mark.parametrize("text", ["", "forever", "30"])
def test_text_without_an_interval_is_refused(text: str) -> None:
    with pytest.raises(HandlerError, match="is not an interval such as 'interval 30 days'"):
        seconds_of(text)


def test_interval_of_months_is_refused() -> None:
    with pytest.raises(HandlerError, match="month is not a known unit"):
        seconds_of("interval 2 months")


def test_default_log_retention_is_thirty_days() -> None:
    assert TableDetail(location="").kept_for == 30 * DAY
    assert TableDetail(location="", properties={"delta.logRetentionDuration": "interval 2 days"}).kept_for == 2 * DAY


@pytest.mark.parametrize(
    ("detail", "layout", "expected"),
    [
        ({"properties": {"delta.setTransactionRetentionDuration": "interval 7 days"}}, {}, "UNSET TBLPROPERTIES"),
        ({"features": ("catalogManaged",)}, {}, "commits are kept by a catalog"),
        ({"partition_columns": ("day",)}, {"partition_by": ("hour",)}, r"partitioned by \(day\), not by \(hour\)"),
        ({}, {"partition_by": ("day",)}, r"partitioned by \(\), not by \(day\)"),
        ({"partition_columns": ("a", "b")}, {"partition_by": ("b", "a")}, r"by \(a, b\), not by \(b, a\)"),
    ],
)
def test_unsuitable_table_is_refused(detail: dict[str, Any], layout: dict[str, Any], expected: str) -> None:
    with pytest.raises(HandlerError, match=expected):
        check_detail("delta:t", TableDetail(location="", **detail), Layout(**layout))


@pytest.mark.parametrize(
    ("location", "properties", "named"),
    [
        ("file:/lake/orders", {}, ("city",)),
        ("hdfs://lake/orders", {"delta.columnMapping.mode": "none"}, ("city",)),
        ("s3a://lake/orders", {}, ()),
        ("file:/lake/orders", {"delta.columnMapping.mode": "name"}, ()),
        ("file:/lake/orders", {"delta.randomizeFilePrefixes": "true"}, ()),
    ],
)
def test_fault_57_value_directories_are_only_on_file_systems(
    location: str, properties: dict[str, str], named: tuple[str, ...]
) -> None:
    detail = TableDetail(location=location, partition_columns=("city",), properties=properties)
    assert detail.named_directories == named


def test_suitable_table_is_accepted() -> None:
    detail = TableDetail(location="", partition_columns=("Day",), features=("deletionVectors", "columnMapping"))
    check_detail("delta:t", detail, Layout(partition_by=("day",)))
    check_detail("delta:t", detail, Layout())


@pytest.mark.parametrize(
    ("location", "settings", "expected"),
    [
        ("s3a://b/t", {}, r"spark\.delta\.logStore\.s3a\.impl = io\.delta\.storage\.S3DynamoDBLogStore.*single_driver"),
        ("s3://b/t", {"spark__delta__logStore__s3a__impl": "io.delta.storage.S3DynamoDBLogStore"}, "on S3"),
        ("file:/t", {"spark__delta__logStore__file__impl": "io.delta.storage.LocalLogStore"}, "for one Spark driver"),
        ("file:/t", {"spark__delta__logStore__class": "o.a.s.sql.delta.storage.LocalLogStore"}, "for one Spark driver"),
        ("oss://b/t", {}, "is not known here"),
    ],
)
def test_store_without_exclusive_puts_is_refused(location: str, settings: dict[str, str], expected: str) -> None:
    with pytest.raises(HandlerError, match=expected):
        check_store(spark(**settings), location, single_driver=False)
    check_store(spark(**settings), location, single_driver=True)


@pytest.mark.parametrize(
    ("location", "settings"),
    [
        ("file:/t", {}),
        ("hdfs://name/t", {}),
        ("abfss://c@a.example/t", {}),
        ("gs://b/t", {}),
        ("s3a://b/t", {"spark__delta__logStore__s3a__impl": "io.delta.storage.S3DynamoDBLogStore"}),
        ("oss://b/t", {"spark__delta__logStore__oss__impl": "com.example.OurStore"}),
    ],
)
def test_store_with_exclusive_puts_is_accepted(location: str, settings: dict[str, str]) -> None:
    check_store(spark(**settings), location, single_driver=False)


@pytest.mark.parametrize("scheme", ["s3", "s3a"])
def test_store_shared_by_spark_drivers_is_recognized(scheme: str) -> None:
    location = f"{scheme}://b/t"
    shared = {f"spark__delta__logStore__{scheme}__impl": "io.delta.storage.S3DynamoDBLogStore"}
    assert has_shared_store(spark(**shared), location)
    assert not has_shared_store(spark(**shared), "s3n://b/t")
    single = spark(spark__delta__logStore__class="io.delta.storage.S3SingleDriverLogStore")
    assert not has_shared_store(single, location)


def test_spark_without_commit_info_is_refused() -> None:
    with pytest.raises(HandlerError, match="commitInfo"):
        check_session(spark(spark__databricks__delta__commitInfo__enabled="False"))
    check_session(spark())
