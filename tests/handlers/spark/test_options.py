from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from sarameya import ConfigError, HandlerError
from sarameya_handlers import SparkOptions, SparkSink
from sarameya_handlers.printing import PrintHandler
from sarameya_handlers.spark.options import spark_options
from sarameya_handlers.spark.sink.options import sink_arguments


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"path": 5}, "path = 5: must be text that is not empty"),
        ({"path": ""}, "path = '': must be text that is not empty"),
        ({"table": "hive:x"}, "table = 'hive:x': must be parquet:PATH, delta:PATH"),
        ({"path": "hdfs://bucket/x"}, "path = 'hdfs://bucket/x': must be a directory, or s3://BUCKET/PATH"),
        ({"path": "x", "store": {}}, "is for URLs of object stores, not for x"),
        ({"path": "s3://x/y", "store": {"endpoint": 1}}, "store.endpoint = 1: must be a string"),
        ({"table": "iceberg:a.b.c", "store": {}}, "store = {}: is for Parquet and Delta tables only"),
        ({"table": "delta:x", "store": {}}, "is for tables on S3 by URL, and not with single_driver"),
        (
            {"path": "x", "tables": {"a": "y"}},
            "table = 'parquet:x': must contain {topic} if topics have tables of their",
        ),
        ({"tables": ["a"]}, "tables = ['a']: must be topics and the names of their tables; quote topics with a dot"),
        ({"tables": {}}, "tables = {}: must name the tables of topics, unless `table` has {topic} in it"),
        ({"tables": {"a": "hive:x"}}, "table = 'hive:x': must be parquet:PATH"),
        ({"table": "iceberg:{topic}"}, "table = 'topic': must be CATALOG.DB.TABLE"),
        ({"path": "x/{a,b}"}, "path = 'x/{a,b}': must have none of"),
        ({"path": "x", "format": "delta"}, "format = 'delta': no such option"),
        ({"path": "x", "partition_by": "day"}, "partition_by = 'day': must be a list of columns"),
        ({"path": "x", "max_partitions": 0}, "max_partitions = 0: must be a whole number of at least 1"),
        ({"path": "x", "evolve_schema": "yes"}, "evolve_schema = 'yes': must be true or false"),
        ({"path": "x", "staging": "y"}, "staging = 'y': is for object stores: a directory has its own"),
        ({"path": "x", "single_driver": True}, "single_driver = True: is for Delta tables only"),
        ({"table": "iceberg:a.b.c", "single_driver": True}, "single_driver = True: is for Delta tables only"),
        ({"table": "delta:x", "single_driver": "yes"}, "single_driver = 'yes': must be true or false"),
        ({"path": "x", "file_bytes": 0}, "file_bytes = 0: must be a whole number of at least 1"),
        ({"path": "x", "on_missing": "skip"}, "on_missing = 'skip': must be 'stop' or 'leave_out'"),
        ({"path": "x", "retry_for": -1}, "retry_for = -1: must be a number of seconds, at least 0"),
        ({"path": "x", "name": ""}, "name = '': must be a non-empty string"),
        ({"path": "x", "dead_letters": {"path": 5}}, "dead_letters.path = 5"),
        ({"path": "x", "transform": "json:loads", "transform_sql": "select 1"}, "transform_sql = 'select 1': must not"),
        ({"path": "x", "value_format": "xml"}, "value_format = 'xml': must be one of 'bytes'"),
        ({"path": "x", "max_row": 5}, "max_row = 5: no such option; did you mean 'max_rows'"),
        ({"path": "x", "max_rows": 0}, "max_rows = 0: must be a whole number of at least 1"),
        ({"path": "x", "max_rows": True}, "max_rows = True: must be a whole number"),
        ({"path": "x", "max_bytes": 1.5}, "max_bytes = 1.5: must be a whole number"),
        ({"path": "x", "max_age": 0}, "max_age = 0: must be a number of seconds above 0"),
        ({"path": "x", "max_age": float("nan")}, "max_age = nan: must be a number of seconds above 0"),
        ({"path": "x", "transform": "json"}, "transform = 'json': must be 'package.module:function'"),
        ({"path": "x", "transform": 5}, "transform = 5: must be 'package.module:function'"),
        ({"path": "x", "transform": "no.such:f"}, "transform = 'no.such:f': cannot import 'no.such': No module named"),
        ({"path": "x", "transform": "json:f.g"}, "transform = 'json:f.g': module 'json' has no function 'f.g'"),
        ({"path": "x", "transform": "json:__name__"}, "module 'json' has no function '__name__'"),
        ({"path": "x", "spark": 5}, "spark = 5: must be a table of master, app_name, conf"),
        ({"path": "x", "spark": {"mastr": "x"}}, "spark.mastr = 'x': no such option; did you mean 'master'"),
        ({"path": "x", "spark": {"master": ""}}, "spark.master = '': must be a non-empty string"),
        ({"path": "x", "spark": {"log_level": "warning"}}, "spark.log_level = 'warning': must be one of 'OFF'"),
        ({"path": "x", "spark": {"max_jobs": 0}}, "spark.max_jobs = 0: must be a whole number of at least 1"),
        ({"path": "x", "spark": {"conf": []}}, "spark.conf = []: must be a table of Spark properties"),
        ({"path": "x", "spark": {"conf": {"ui": 1}}}, "spark.conf.ui = 1: a Spark property's name begins with"),
        ({"path": "x", "spark": {"conf": {"spark.a": []}}}, r"spark.conf.spark.a = []: must be a string"),
    ],
)
def test_invalid_option_is_refused_with_its_value(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as raised:
        SparkSink.from_options(options)
    assert message in str(raised.value)


@pytest.mark.parametrize("places", [{}, {"path": "x", "table": "parquet:x"}])
def test_destination_is_required_exactly_once(places: dict[str, str]) -> None:
    with pytest.raises(HandlerError, match=r"give the table, either with option 'table' .* or with option 'path'"):
        SparkSink.from_options({"max_rows": 5, **places})


@pytest.mark.parametrize(
    ("source", "cause"),
    [("raise ValueError('no schema')", "ValueError: no schema"), ("def values(:", "SyntaxError: invalid syntax")],
)
def test_transform_import_error_names_its_cause(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str, cause: str
) -> None:
    (tmp_path / "broken_transform.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ConfigError) as raised:
        SparkSink.from_options({"path": "x", "transform": "broken_transform:values"})
    error = str(raised.value)
    assert error.startswith(f"transform = 'broken_transform:values': cannot import 'broken_transform': {cause}")


def test_every_option_is_accepted(tmp_path: Path) -> None:
    SparkSink.from_options(
        {
            "path": str(tmp_path / "not there yet"),
            "partition_by": ["day"],
            "max_partitions": 5,
            "evolve_schema": True,
            "file_bytes": 10**8,
            "name": "mine",
            "on_missing": "leave_out",
            "retry_for": 60,
            "dead_letters": {"path": str(tmp_path / "dead")},
            "value_format": "json",
            "value_schema": "id bigint",
            "max_rows": 5,
            "max_bytes": 1000,
            "max_age": 1,
            "transform": "tests.handlers.spark.transforms:values",
            "spark": {"master": "local[1]", "app_name": "a", "log_level": "WARN", "max_jobs": 1, "conf": {}},
        }
    )
    assert list(tmp_path.iterdir()) == []


def test_delta_table_gets_the_single_driver_option() -> None:
    spark: Any = SimpleNamespace(conf={})
    options = {"table": "delta:s3a://lake/orders", "staging": "/staging"}
    with pytest.raises(HandlerError, match="single_driver = true"):
        sink_arguments(options)["table"]._apply_location(spark, "s3a://lake/orders")
    sink_arguments({**options, "single_driver": True})["table"]._apply_location(spark, "s3a://lake/orders")


def test_user_properties_override_defaults() -> None:
    properties = SparkOptions(
        master="local[2]", conf={"spark.ui.enabled": True, "spark.driver.memory": "2g", "spark.x": 5}
    ).properties
    assert properties["spark.ui.enabled"] == "true"
    assert properties["spark.driver.memory"] == "2g"
    assert properties["spark.x"] == "5"
    assert properties["spark.sql.session.timeZone"] == "UTC"
    assert properties["spark.driver.host"] == "127.0.0.1"


def test_long_plans_are_built_only_for_the_spark_ui() -> None:
    assert SparkOptions().properties["spark.sql.ui.explainMode"] == "simple"
    assert "spark.sql.ui.explainMode" not in SparkOptions(conf={"spark.ui.enabled": True}).properties


def test_cluster_has_no_default_driver_address() -> None:
    assert "spark.driver.host" not in SparkOptions(master="spark://master:7077").properties


def test_delta_snapshot_partitions_are_for_local_masters_only() -> None:
    name = "spark.databricks.delta.snapshotPartitions"
    assert SparkOptions(master="local[8]").properties[name] == "4"
    assert SparkOptions(master="local[8]", conf={name: 9}).properties[name] == "9"
    assert name not in SparkOptions(master="spark://master:7077").properties


def test_spark_option_is_a_table_or_a_master() -> None:
    assert spark_options("sc://localhost:1") == spark_options({"master": "sc://localhost:1"})
    assert spark_options({"max_jobs": 3}).max_jobs == 3
    with pytest.raises(ConfigError, match="spark = 5: must be a table of"):
        spark_options(5)


def test_connect_settings_override_defaults() -> None:
    options = SparkOptions(master="sc://localhost:15002", conf={"spark.sql.session.timeZone": "CET", "spark.x": True})
    assert options.is_connect
    assert options.settings == {
        "spark.sql.session.timeZone": "CET",
        "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
        "spark.sql.codegen.useIdInClassName": "false",
        "spark.x": "true",
    }


@pytest.mark.parametrize(
    "url", ["sc://localhost", "sc://localhost:15002", "sc://h:1/", "sc://h:1/;token=a.b-c;use_ssl=true", "sc://[::1]:1"]
)
def test_connect_address_is_accepted(url: str) -> None:
    assert SparkOptions(master=url).is_connect


@pytest.mark.parametrize("url", ["sc:localhost", "sc://", "sc://h:1/path", "sc://h:1;token=a", "sc://h:1/;token"])
def test_invalid_connect_address_is_refused(url: str) -> None:
    with pytest.raises(ConfigError, match=r"master = .*: must be sc://host:port, or sc://host:port/;token="):
        SparkOptions(master=url)


def test_token_is_not_printed() -> None:
    assert "s3cret" not in repr(SparkOptions(master="sc://localhost:1/;token=s3cret;use_ssl=true"))
    with pytest.raises(ConfigError) as raised:
        SparkOptions(master="sc://localhost:1;token=s3cret")
    assert "s3cret" not in str(raised.value)


def test_explicit_defaults_change_nothing() -> None:
    defaults = SparkSink.option_defaults()
    assert sink_arguments({"path": "x", **defaults})["spark"] == sink_arguments({"path": "x"})["spark"]
    explicit, implicit = (SparkSink.from_options({"path": "x", **options}) for options in (defaults, {}))
    assert (explicit._name, explicit._settings.limits, explicit._settings.retry_for) == (
        implicit._name,
        implicit._settings.limits,
        implicit._settings.retry_for,
    )
    assert PrintHandler.from_options(PrintHandler.option_defaults())
