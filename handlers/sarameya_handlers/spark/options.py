"""What may be said about a Spark sink, checked: its limits, its Spark, its transform.

Every check raises ConfigError with the option, the value and what is allowed. Nothing here imports Spark.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Mapping
from math import inf
from typing import TYPE_CHECKING, Any

import attrs

from sarameya import ConfigError
from sarameya_handlers.options import check_known
from sarameya_handlers.spark.session_settings import check_conf

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


_CONNECT_URL = re.compile(r"sc://[^/;?#\s]+(/(;[^;=\s]+=[^;=\s]*)*)?")


def _master(validated: object, attribute: attrs.Attribute[Any], value: Any) -> None:
    _text(validated, attribute, value)
    if value.startswith("sc:") and not _CONNECT_URL.fullmatch(value):
        raise ConfigError(attribute.name, without_token(value), "must be sc://host:port, or sc://host:port/;token=...")


def without_token(url: str) -> str:
    """The address of a Spark Connect server as it may be printed."""
    return re.sub(r"(token=)[^;]*", r"\1...", url)


def _share(validated: Any, attribute: attrs.Attribute[Any], value: Any) -> None:
    if not isinstance(value, bool | None):
        raise ConfigError(attribute.name, value, "must be true or false")
    if value and validated.is_connect:
        raise ConfigError(attribute.name, value, "is not for a Spark Connect server, which all workers share as it is")


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
        check_conf(key, setting)


@attrs.frozen(slots=True, kw_only=True)
class Limits:
    """When a partition's collected records are landed: whichever limit is reached first."""

    max_rows: int = attrs.field(default=250_000, validator=_count)
    max_bytes: int = attrs.field(default=64 * 2**20, validator=_count)
    """Bytes in memory, as Arrow columns. One record larger than this still lands, alone."""
    max_age: float = attrs.field(default=30.0, validator=_seconds)
    """Seconds from a record's arrival to the begin of its landing, at most, however idle the topic is."""


_SESSION_DEFAULTS = {
    # Timestamps are instants; how they print must not depend on where the sink runs.
    "spark.sql.session.timeZone": "UTC",
    # Not INT96, which other readers of Parquet deprecate.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    # With its number in its name, the code of each landing that shares a job is a class of its own, to be compiled.
    "spark.sql.codegen.useIdInClassName": "false",
}


@attrs.frozen(slots=True, kw_only=True)
class SparkOptions:
    """Spark as a sink has it: a SparkSession that it starts and stops, or sessions of a Spark Connect server."""

    master: str = attrs.field(default="local[*]", validator=_master, repr=without_token)
    """Spark's own word for where jobs run, or `sc://host:port/;token=...` for a Spark Connect server."""
    app_name: str = attrs.field(default="sarameya", validator=_text)
    conf: Mapping[str, str | int | float | bool] = attrs.field(factory=dict, validator=_conf)
    """Spark properties; they win over the sink's own defaults. With Spark Connect: what a session may set."""
    log_level: str = attrs.field(default="OFF", validator=_log_level)
    """What Spark's own log4j writes to the `sarameya.spark` logger: nothing unless asked for, since what concerns a
    sink is raised, and told in a line. What the JVM itself prints (no memory, a crash) is logged in any case. A Spark
    Connect server keeps its log to itself."""
    max_jobs: int = attrs.field(default=2, validator=_count)
    """Landings that are with Spark at once, over all partitions; each has a session of its own."""

    share: bool | None = attrs.field(default=None, validator=_share)
    """Whether the workers of `sarameya run --workers N` have one Spark, as a Spark Connect server, not one each; None
    for where their table takes no more than one driver."""

    @property
    def is_connect(self) -> bool:
        """Whether `master` is a Spark Connect server's address (`sc://`)."""
        return self.master.startswith("sc:")

    @property
    def settings(self) -> dict[str, str]:
        """All that each session of a Spark Connect server is given: our defaults, then `conf`."""
        return {**_SESSION_DEFAULTS, **{key: _property(value) for key, value in self.conf.items()}}

    @property
    def properties(self) -> dict[str, str]:
        """All that the session is started with: our defaults, then `conf`."""
        defaults = {
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.log.level": self.log_level,
            **_SESSION_DEFAULTS,
        }
        if self.master.startswith("local"):
            # Nobody connects from elsewhere, and a laptop's host name may resolve to nothing.
            defaults |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
            # Before each commit Delta makes a job of so many tasks, 50 by default, of which few are any good here.
            defaults["spark.databricks.delta.snapshotPartitions"] = "4"
        chosen = {key: _property(value) for key, value in self.conf.items()}
        if chosen.get("spark.ui.enabled", "false") == "false":
            # Spark writes out each job's plan for the UI, also where there is none: in short, and a landing costs less.
            defaults["spark.sql.ui.explainMode"] = "simple"
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


def spark_options(value: Any, name: str = "spark") -> SparkOptions:
    """What an option called `name` says of Spark: a table of SparkOptions, or `master` alone ("sc://host:port")."""
    options: SparkOptions = from_mapping(
        SparkOptions, {"master": value} if isinstance(value, str) else value, prefix=f"{name}."
    )
    return options


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
