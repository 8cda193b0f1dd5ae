from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sarameya import ConfigError, HandlerError
from sarameya_handlers import SparkOptions, SparkSink


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"path": 5}, "path = 5: must be the directory to land in"),
        ({"path": ""}, "path = '': must be the name of a directory"),
        ({"path": "s3a://bucket/x"}, "path = 's3a://bucket/x': must be a directory of a local or mounted file system"),
        ({"path": "x/{a,b}"}, "path = 'x/{a,b}': must have none of"),
        ({"path": "x", "format": "delta"}, "format = 'delta': must be one of 'parquet'"),
        ({"path": "x", "format": ["delta"]}, "format = ['delta']: must be one of 'parquet'"),
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
        ({"path": "x", "spark": "local"}, "spark = 'local': must be a table of app_name, conf"),
        ({"path": "x", "spark": {"mastr": "x"}}, "spark.mastr = 'x': no such option; did you mean 'master'"),
        ({"path": "x", "spark": {"master": ""}}, "spark.master = '': must be a non-empty string"),
        ({"path": "x", "spark": {"log_level": "warning"}}, "spark.log_level = 'warning': must be one of 'OFF'"),
        ({"path": "x", "spark": {"max_jobs": 0}}, "spark.max_jobs = 0: must be a whole number of at least 1"),
        ({"path": "x", "spark": {"conf": []}}, "spark.conf = []: must be a table of Spark properties"),
        ({"path": "x", "spark": {"conf": {"ui": 1}}}, "spark.conf.ui = 1: a Spark property's name begins with"),
        ({"path": "x", "spark": {"conf": {"spark.a": []}}}, r"spark.conf.spark.a = []: must be a string"),
    ],
)
def test_bad_option_is_named_with_its_value_and_what_is_allowed(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as raised:
        SparkSink.from_options(options)
    assert message in str(raised.value)


def test_missing_path_is_said_to_be_missing() -> None:
    with pytest.raises(HandlerError, match="option 'path' is missing: the directory to land in"):
        SparkSink.from_options({"max_rows": 5})


@pytest.mark.parametrize(
    ("source", "cause"),
    [("raise ValueError('no schema')", "ValueError: no schema"), ("def values(:", "SyntaxError: invalid syntax")],
)
def test_transform_whose_module_raises_is_named_with_the_cause(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str, cause: str
) -> None:
    (tmp_path / "broken_transform.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ConfigError) as raised:
        SparkSink.from_options({"path": "x", "transform": "broken_transform:values"})
    told = str(raised.value)
    assert told.startswith(f"transform = 'broken_transform:values': cannot import 'broken_transform': {cause}")


def test_every_option_is_taken(tmp_path: Path) -> None:
    SparkSink.from_options(
        {
            "path": str(tmp_path / "not there yet"),
            "format": "parquet",
            "max_rows": 5,
            "max_bytes": 1000,
            "max_age": 1,
            "transform": "tests.handlers.spark.transforms:values",
            "spark": {"master": "local[1]", "app_name": "a", "log_level": "WARN", "max_jobs": 1, "conf": {}},
        }
    )
    assert list(tmp_path.iterdir()) == []


def test_properties_are_the_defaults_with_the_users_over_them() -> None:
    properties = SparkOptions(
        master="local[2]", conf={"spark.ui.enabled": True, "spark.driver.memory": "2g", "spark.x": 5}
    ).properties
    assert properties["spark.ui.enabled"] == "true"
    assert properties["spark.driver.memory"] == "2g"
    assert properties["spark.x"] == "5"
    assert properties["spark.sql.session.timeZone"] == "UTC"
    assert properties["spark.driver.host"] == "127.0.0.1"


def test_properties_of_a_cluster_leave_the_drivers_address_to_spark() -> None:
    assert "spark.driver.host" not in SparkOptions(master="spark://master:7077").properties
