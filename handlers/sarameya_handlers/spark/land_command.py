"""`sarameya land`: lands topics in a table without an app file.

Defines the arguments, and converts them to an app that the service runs, with the Spark sink as its handler.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any

from sarameya.service import (
    Loaded,
    Variable,
    add_client_arguments,
    add_run_arguments,
    as_app_file,
    client_given,
    epilog,
    load_arguments,
    make_handler,
    name_and_value,
    print_out,
    run_app,
    watch_group,
)
from sarameya_handlers.spark.arguments import add_spark_arguments

_DEFAULTS = {
    "config.offset_initial": "oldest",
    # A new JVM needs seconds for its first flush, which may also be the last flush of a claim.
    "config.claim_grace": 35.0,
    "config.close_timeout": 45.0,
    # Users of the command line watch the log, perhaps by way of `tee` or a job's log.
    "service.log_format": "text",
}
_UNTIL_END_MAX_AGE = 5.0
"""Seconds. The records of the last batches come soon or never, since landing stops at the end of the logs."""

_REMEDIES = {
    "bootstrap_servers": "give --bootstrap HOST:PORT",
    "group": "give --group NAME; the next run starts at its committed offsets",
    "topics": "give --topic NAME, or --topics-pattern REGEX",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `sarameya land`."""
    parser.description = (
        "Land topics in a table through Spark, each record exactly once, until a signal or, with --until-end, until "
        "all existing records have landed. The next run continues after the last landed record: the table and the "
        "group record the offsets. --print-app prints an app file with which `sarameya run` does the same."
    )
    parser.epilog = epilog(
        "sarameya land --bootstrap localhost:9092 --group orders-landing --topic orders --to parquet:landing/orders",
        "sarameya land --properties client.properties --group g --topics-pattern 'orders-.*' --to iceberg:lake.db.o "
        "--until-end",
        "sarameya land --bootstrap localhost:9092 --group g --topic orders --to delta:/lake/orders --set max_age=10 "
        "--print-app > landing.toml",
        exit_codes="0 ended by a signal, or at the end; 1 failed; 2 the command line or configuration must change",
    )
    source = parser.add_argument_group("source")
    add_client_arguments(source)
    source.add_argument("--group", metavar="NAME", help="the consumer group, which stores the committed offsets")
    topics = source.add_mutually_exclusive_group()
    topics.add_argument("--topic", dest="topics", action="append", metavar="NAME", help="a topic; may be given again")
    topics.add_argument("--topics-pattern", metavar="REGEX", help="every topic whose whole name matches, now or later")
    target = parser.add_argument_group("target")
    target.add_argument(
        "--to",
        dest="table",
        required=True,
        metavar="TABLE",
        help="parquet:PATH, delta:PATH_OR_NAME, iceberg:CATALOG.DB.TABLE; a path alone means parquet; {topic} in it "
        "stands for each topic",
    )
    target.add_argument(
        "--set",
        dest="settings",
        type=name_and_value,
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="an option as in [handler.options] of an app file: max_age=10, value_format=json, "
        "dead_letters.path=landing/dead; may be given again",
    )
    add_spark_arguments(target)
    parser.add_argument(
        "--until-end", action="store_true", help="land the records up to the logs' ends at the start, and stop"
    )
    add_run_arguments(parser)
    parser.add_argument("--quiet", action="store_true", help="hide progress")
    parser.add_argument("--print-app", action="store_true", help="print these options as an app file, and do nothing")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Run until a signal or the end; return 0 at once with --print-app.

    Raises:
        AppFileError: The arguments are wrong.
        SarameyaError: A member failed.
    """
    loaded = _loaded(args)
    if args.print_app:
        make_handler(loaded.app, loaded.layers)  # reports mistakes as `sarameya run` would
        print_out(as_app_file(loaded))
        return 0
    service = loaded.app.service
    has_worker_processes = service.workers > 1 and not service.in_process
    watch = watch_group("landed", until_end=args.until_end, quiet=args.quiet, as_lines=has_worker_processes)
    return run_app(loaded.app, loaded.layers, args, watch)


def _loaded(args: argparse.Namespace) -> Loaded:
    defaults: dict[str, Any] = dict(_DEFAULTS)
    if args.until_end:
        defaults["handler.options.max_age"] = _UNTIL_END_MAX_AGE
    return load_arguments("sarameya land", list(_given(args)), defaults, _REMEDIES)


def _given(args: argparse.Namespace) -> Iterator[Variable]:
    """Yield the app file's keys that the arguments set."""
    keys: list[tuple[str, str, Any]] = [
        ("--group", "group", args.group),
        ("--topic", "topics", args.topics),
        ("--topics-pattern", "topics_pattern", args.topics_pattern),
        ("--to", "handler.options.table", args.table),
        ("--spark", "handler.options.spark.master", args.spark),
        ("--conf", "handler.options.spark.conf", dict(args.spark_conf) or None),
        ("--workers", "service.workers", args.workers),
        ("--in-process", "service.in_process", args.in_process or None),
        ("--http", "service.http", args.http),
        ("--log-format", "service.log_format", args.log_format),
    ]
    yield Variable("land", "handler.name", "spark")
    yield from client_given(args)
    for name, key, value in keys:
        if value is not None:
            yield Variable(name, key, value)
    for option, value in args.settings:
        yield Variable("--set", f"handler.options.{option}", value)
