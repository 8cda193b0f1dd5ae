"""What may be said about a Spark sink, checked: its limits, its Spark, its transform.

Every check raises ConfigError with the option, the value and what is allowed. Nothing here imports Spark.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from math import inf
from typing import TYPE_CHECKING, Any

import attrs

from sarameya import ConfigError
from sarameya_handlers.options import check_known

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    Transform = Callable[[DataFrame], DataFrame]

LOG_LEVELS = ("OFF", "FATAL", "ERROR", "WARN", "INFO", "DEBUG", "TRACE")


def _count(_: object, attribute: attrs.Attribute[Any], value: Any) -> None:
    if type(value) is not int or value < 1:
        raise ConfigError(attribute.name, value, "must be a whole number of at least 1")


def _seconds(_: object, attribute: attrs.Attribute[Any], value: Any) -> None:
    if type(value) not in (int, float) or not 0 < value < inf:
        raise ConfigError(attribute.name, value, "must be a number of seconds above 0")


def _text(_: object, attribute: attrs.Attribute[Any], value: Any) -> None:
    if not isinstance(value, str) or not value:
        raise ConfigError(attribute.name, value, "must be a non-empty string")


def _log_level(_: object, attribute: attrs.Attribute[Any], value: Any) -> None:
    if value not in LOG_LEVELS:
        raise ConfigError(attribute.name, value, f"must be one of {', '.join(map(repr, LOG_LEVELS))}")


def _conf(_: object, attribute: attrs.Attribute[Any], value: Any) -> None:
    if not isinstance(value, Mapping):
        raise ConfigError(attribute.name, value, "must be a table of Spark properties")
    for key, setting in value.items():
        if not isinstance(key, str) or not key.startswith("spark."):
            raise ConfigError(f"{attribute.name}.{key}", setting, "a Spark property's name begins with 'spark.'")
        if not isinstance(setting, str | int | float):
            raise ConfigError(f"{attribute.name}.{key}", setting, "must be a string, a number, true or false")


@attrs.frozen(slots=True, kw_only=True)
class Limits:
    """When a partition's collected records are landed: whichever limit is reached first."""

    max_rows: int = attrs.field(default=250_000, validator=_count)
    max_bytes: int = attrs.field(default=64 * 2**20, validator=_count)
    """Bytes in memory, as Arrow columns. One record larger than this still lands, alone."""
    max_age: float = attrs.field(default=30.0, validator=_seconds)
    """Seconds from a record's arrival to the begin of its landing, at most, however idle the topic is."""


@attrs.frozen(slots=True, kw_only=True)
class SparkOptions:
    """The SparkSession that a sink starts and stops."""

    master: str = attrs.field(default="local[*]", validator=_text)
    app_name: str = attrs.field(default="sarameya", validator=_text)
    conf: Mapping[str, str | int | float | bool] = attrs.field(factory=dict, validator=_conf)
    """Spark properties; they win over the sink's own defaults."""
    log_level: str = attrs.field(default="ERROR", validator=_log_level)
    """What Spark writes to the `sarameya.spark` logger."""
    max_jobs: int = attrs.field(default=2, validator=_count)
    """Landings that are with Spark at once, over all partitions."""

    @property
    def properties(self) -> dict[str, str]:
        """All that the session is started with: our defaults, then `conf`."""
        defaults = {
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.log.level": self.log_level,
            # Timestamps are instants; how they print must not depend on where the sink runs.
            "spark.sql.session.timeZone": "UTC",
            # Not INT96, which other readers of Parquet deprecate.
            "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
        }
        if self.master.startswith("local"):
            # Nobody connects from elsewhere, and a laptop's host name may resolve to nothing.
            defaults |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
        chosen = {key: _property(value) for key, value in self.conf.items()}
        return {**defaults, **chosen, "spark.master": self.master, "spark.app.name": self.app_name}


def _property(value: str | int | float | bool) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def from_mapping(kind: type[Any], values: Any, prefix: str = "") -> Any:
    """An options class from a plain mapping; options are named in errors with `prefix` before them."""
    known = {field.name for field in attrs.fields(kind)}
    if not isinstance(values, Mapping):
        raise ConfigError(prefix.rstrip("."), values, f"must be a table of {', '.join(sorted(known))}")
    check_known(values, known, prefix)
    try:
        return kind(**values)
    except ConfigError as error:
        raise ConfigError(prefix + error.option, error.value, error.allowed) from None


def load_transform(name: Any) -> Transform:
    """The function that `package.module:function` names."""
    module_name, _, path = name.partition(":") if isinstance(name, str) else ("", "", "")
    if not module_name or not path:
        raise ConfigError("transform", name, "must be 'package.module:function'")
    try:
        found: Any = importlib.import_module(module_name)
    except Exception as error:
        # An import runs the user's code: whatever it raises, this option is what is wrong.
        cause = str(error) if isinstance(error, ImportError) else f"{type(error).__name__}: {error}"
        raise ConfigError("transform", name, f"cannot import {module_name!r}: {cause}") from error
    for attribute in path.split("."):
        found = getattr(found, attribute, None)
    if not callable(found):
        raise ConfigError("transform", name, f"module {module_name!r} has no function {path!r}")
    return found  # type: ignore[no-any-return]
