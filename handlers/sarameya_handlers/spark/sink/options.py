"""Options of a Spark sink in an app file, as SparkSink's arguments. Checks raise ConfigError, HandlerError."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import attrs

from sarameya import ConfigError, HandlerError
from sarameya_handlers.landing.dead_letters.options import dead_letters
from sarameya_handlers.landing.stores.options import store_options
from sarameya_handlers.options import check_known
from sarameya_handlers.spark.options import SparkOptions, spark_options
from sarameya_handlers.spark.shaping.shaping import SHAPING_OPTIONS, Shaping
from sarameya_handlers.spark.tables.named import parse_table, table_named
from sarameya_handlers.spark.tables.table import Layout, Table
from sarameya_handlers.spark.tables.topic_tables import TOPIC, TopicTables

PLAIN = ("max_rows", "max_bytes", "max_age", "file_bytes", "name", "on_missing", "retry_for")
"""Options that are arguments of SparkSink with the same name."""
LAYOUT = ("partition_by", "max_partitions", "evolve_schema")
"""Options that become a `Layout`."""
OTHERS = ("table", "tables", "path", "store", "staging", "single_driver", "spark", "dead_letters")


def sink_arguments(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of SparkSink for these options, by name."""
    check_known(options, {*PLAIN, *LAYOUT, *OTHERS, *SHAPING_OPTIONS})
    return {
        "table": table_of(options),
        "shape": Shaping.from_options(options),
        "spark": spark_options(options.get("spark", {})),
        "dead_letters": dead_letters(options["dead_letters"]) if "dead_letters" in options else None,
        **{name: options[name] for name in PLAIN if name in options},
    }


def option_defaults(sink: Callable[..., Any]) -> dict[str, Any]:
    """Return the defaults of options that have a default. `sink` is SparkSink, whose arguments have some of them."""
    arguments = inspect.signature(sink).parameters
    layout, spark = Layout(), SparkOptions()
    return {
        **{name: arguments[name].default for name in PLAIN},
        "partition_by": list(layout.partition_by),
        "max_partitions": layout.max_partitions,
        "evolve_schema": layout.evolve_schema,
        "flatten": Shaping().flatten,
        "spark": {field.name: getattr(spark, field.name) for field in attrs.fields(SparkOptions)},
    }


def table_of(options: Mapping[str, Any]) -> Table | TopicTables:
    """Return the table that the options name, or the tables of topics. They are not opened yet."""
    named, pattern = _named(options), _table_name(options)
    if not named and pattern is not None and TOPIC not in pattern:
        return _make_table(options, pattern)
    return TopicTables(make=partial(_make_table, options), pattern=pattern, named=named)


def _table_name(options: Mapping[str, Any]) -> str | None:
    """Return the name of the table, or a pattern; None if only topics have tables."""
    if ("table" in options and "path" in options) or not {"table", "path", "tables"} & options.keys():
        raise HandlerError(
            "give the table, either with option 'table' (parquet:PATH, delta:PATH or iceberg:CATALOG.DB.TABLE) or with "
            "option 'path' (short for parquet:PATH), or those of topics with option 'tables'"
        )
    option = "path" if "path" in options else "table"
    name = options.get(option)
    if option in options and (not isinstance(name, str) or not name):
        raise ConfigError(option, name, "must be text that is not empty")
    return f"parquet:{name}" if option == "path" else name


def _named(options: Mapping[str, Any]) -> Mapping[str, str]:
    named = options.get("tables", {})
    if not isinstance(named, Mapping) or not all(isinstance(name, str) and name for name in named.values()):
        raise ConfigError("tables", named, "must be topics and the names of their tables; quote topics with a dot")
    return named


def _make_table(options: Mapping[str, Any], full_name: str) -> Table:
    if "single_driver" in options and parse_table(full_name)[0] != "delta":
        raise ConfigError("single_driver", options["single_driver"], "is for Delta tables only")
    if "store" in options and parse_table(full_name)[0] == "iceberg":
        raise ConfigError("store", options["store"], "is for Parquet and Delta tables only")
    chosen = {option: options[option] for option in ("staging", "single_driver") if option in options}
    if "store" in options:
        chosen["store"] = store_options(options["store"])
    return table_named(full_name, {"layout": _layout(options), **chosen})


def _layout(options: Mapping[str, Any]) -> Layout:
    return Layout(**{name: options[name] for name in LAYOUT if name in options})
