"""Spark settings that would lose or change rows: options refuse them, and sessions correct them."""

from __future__ import annotations

import pytest

from sarameya import ConfigError
from sarameya_handlers import SparkOptions
from sarameya_handlers.spark.session_settings import corrections


@pytest.mark.parametrize(
    ("key", "value", "advice"),
    [
        ("spark.sql.ansi.enabled", False, "use try_cast"),
        ("spark.sql.files.ignoreCorruptFiles", "true", "in the session that reads other files"),
        ("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MILLIS", "round timestamps in the transform"),
        ("spark.sql.parquet.datetimeRebaseModeInRead", "LEGACY", "convert old dates in the transform"),
    ],
)
def test_fault_54_option_that_would_lose_rows_is_refused(key: str, value: str | bool, advice: str) -> None:
    with pytest.raises(ConfigError, match=rf"conf\.{key} = .*rows could be lost or changed: .*{advice}"):
        SparkOptions(conf={key: value})


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("spark.sql.ansi.enabled", True),
        ("spark.sql.files.ignoreCorruptFiles", "FALSE"),
        ("spark.sql.parquet.outputTimestampType", "INT96"),
        ("spark.sql.parquet.datetimeRebaseModeInWrite", "exception"),
        ("spark.sql.session.timeZone", "Europe/Berlin"),
        ("spark.sql.caseSensitive", True),
    ],
)
def test_lossless_setting_is_accepted(key: str, value: str | bool) -> None:
    assert key in SparkOptions(conf={key: value}).settings


def test_session_keeps_safe_settings_and_gets_missing_ones() -> None:
    found = {"spark.sql.ansi.enabled": "false", "spark.sql.parquet.outputTimestampType": "INT96", "spark.other": "x"}
    changes = corrections(found)
    assert changes["spark.sql.ansi.enabled"] == "true"
    assert changes["spark.sql.files.ignoreMissingFiles"] == "false"
    assert changes.keys().isdisjoint({"spark.sql.parquet.outputTimestampType", "spark.other"})
    assert corrections(found | changes) == {}
