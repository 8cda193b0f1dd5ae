"""Validated options of a Spark sink: limits of a batch, its Spark, its transform.

Every check raises ConfigError with the option, the value and the allowed values. Nothing here imports Spark.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import attrs

from sarameya import ConfigError
from sarameya.option_kinds import any_seconds, count, filled, from_table, one_of
from sarameya_handlers.spark.session_settings import check_conf

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    Transform = Callable[[DataFrame], DataFrame]

LOG_LEVELS = ("OFF", "FATAL", "ERROR", "WARN", "INFO", "DEBUG", "TRACE")


_CONNECT_URL = re.compile(r"sc://[^/;?#\s]+(/(;[^;=\s]+=[^;=\s]*)*)?")


def _check_master(validated: object, attribute: attrs.Attribute[Any], value: Any) -> None:
    filled(validated, attribute, value)
    if value.startswith("sc:") and not _CONNECT_URL.fullmatch(value):
        raise ConfigError(attribute.name, without_token(value), "must be sc://host:port, or sc://host:port/;token=...")


def without_token(url: str) -> str:
    """Return the address of a Spark Connect server without its token, for printing."""
    return re.sub(r"(token=)[^;]*", r"\1...", url)


def _check_share(validated: Any, attribute: attrs.Attribute[Any], value: Any) -> None:
    if not isinstance(value, bool | None):
        raise ConfigError(attribute.name, value, "must be true or false")
    if value and validated.is_connect:
        raise ConfigError(attribute.name, value, "is not for a Spark Connect server, which all workers share anyway")


def _check_conf(_: object, attribute: attrs.Attribute[Any], value: Any) -> None:
    if not isinstance(value, Mapping):
        raise ConfigError(attribute.name, value, "must be a table of Spark properties")
    for key, setting in value.items():
        if not isinstance(key, str) or not key.startswith("spark."):
            raise ConfigError(f"{attribute.name}.{key}", setting, "a Spark property's name begins with 'spark.'")
        if not isinstance(setting, str | int | float):
            raise ConfigError(f"{attribute.name}.{key}", setting, "must be a string, a number, true or false")
        check_conf(key, setting)


@attrs.frozen(slots=True, kw_only=True)
class Limits:
    """Limits of a batch. A partition's records are flushed when the first limit is reached."""

    max_rows: int = attrs.field(default=250_000, validator=count)
    max_bytes: int = attrs.field(default=64 * 2**20, validator=count)
    """Bytes in memory, as Arrow columns. A larger record still lands, in a batch of its own."""
    max_age: float = attrs.field(default=30.0, validator=any_seconds)
    """Maximum seconds from a record's arrival to the start of its flush, even if no more records arrive."""


_SESSION_DEFAULTS = {
    # Timestamps are instants; their text must not depend on where the sink runs.
    "spark.sql.session.timeZone": "UTC",
    # Not INT96, which other readers of Parquet deprecate.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    # With ids in class names, the generated code of each batch of a job would be a different class to compile.
    "spark.sql.codegen.useIdInClassName": "false",
}


@attrs.frozen(slots=True, kw_only=True)
class SparkOptions:
    """A sink's Spark: a SparkSession that it starts and stops, or sessions of a Spark Connect server."""

    master: str = attrs.field(default="local[*]", validator=_check_master, repr=without_token)
    """Where jobs run, in Spark's notation, or `sc://host:port/;token=...` for a Spark Connect server."""
    app_name: str = attrs.field(default="sarameya", validator=filled)
    conf: Mapping[str, str | int | float | bool] = attrs.field(factory=dict, validator=_check_conf)
    """Spark properties. They override the sink's defaults. With Spark Connect: properties that a session may set."""
    log_level: str = attrs.field(default="OFF", validator=one_of(*LOG_LEVELS))
    """Level of Spark's own log4j messages in the `sarameya.spark` logger. Off by default: errors that concern a sink
    are raised, in one line. Output of the JVM itself (no memory, a crash) is always logged. The log of a Spark Connect
    server is not available here."""
    max_jobs: int = attrs.field(default=2, validator=count)
    """Maximum number of concurrent flushes, over all partitions. Each has its own session."""

    share: bool | None = attrs.field(default=None, validator=_check_share)
    """True if the workers of `sarameya run --workers N` share one Spark, as a Spark Connect server, instead of starting
    one each. None: shared only if the table accepts only one driver."""

    @property
    def is_connect(self) -> bool:
        """True if `master` is a Spark Connect server's address (`sc://`)."""
        return self.master.startswith("sc:")

    @property
    def settings(self) -> dict[str, str]:
        """Settings of each session on a Spark Connect server: our defaults, then `conf`."""
        return {**_SESSION_DEFAULTS, **{key: _property_text(value) for key, value in self.conf.items()}}

    @property
    def properties(self) -> dict[str, str]:
        """Properties with which the session is started: our defaults, then `conf`."""
        defaults = {
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.log.level": self.log_level,
            **_SESSION_DEFAULTS,
        }
        if self.master.startswith("local"):
            # Nothing connects from outside, and a laptop's host name may not resolve.
            defaults |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
            # Delta runs a job of this many tasks before each commit, by default 50, most of which are useless here.
            defaults["spark.databricks.delta.snapshotPartitions"] = "4"
        chosen = {key: _property_text(value) for key, value in self.conf.items()}
        if chosen.get("spark.ui.enabled", "false") == "false":
            # Spark formats each job's plan for the UI, even without one. The short form makes flushes cheaper.
            defaults["spark.sql.ui.explainMode"] = "simple"
        return {**defaults, **chosen, "spark.master": self.master, "spark.app.name": self.app_name}


def _property_text(value: str | int | float | bool) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def spark_options(value: Any) -> SparkOptions:
    """Read the option `spark`: a table of SparkOptions, or `master` alone ("sc://host:port")."""
    return from_table(SparkOptions, {"master": value} if isinstance(value, str) else value, "spark.")


def load_transform(name: Any) -> Transform:
    """Import the function `package.module:function`."""
    module_name, _, path = name.partition(":") if isinstance(name, str) else ("", "", "")
    if not module_name or not path:
        raise ConfigError("transform", name, "must be 'package.module:function'")
    try:
        found: Any = importlib.import_module(module_name)
    except Exception as error:
        # An import runs the user's code, which may raise any exception.
        cause = str(error) if isinstance(error, ImportError) else f"{type(error).__name__}: {error}"
        raise ConfigError("transform", name, f"cannot import {module_name!r}: {cause}") from error
    for attribute in path.split("."):
        found = getattr(found, attribute, None)
    if not callable(found):
        raise ConfigError("transform", name, f"module {module_name!r} has no function {path!r}")
    return found  # type: ignore[no-any-return]
