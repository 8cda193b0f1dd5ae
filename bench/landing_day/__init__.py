"""Ten minutes of landing at a steady rate, while a member joins, one leaves and one is killed: lag, files, exactness.

One broker of Apache Kafka, six partitions, a producer that sends events in JSON at a steady rate. Members are
`sarameya run` with the Spark sink, in processes and with drivers of their own, on local[2]; each landing is parsed by
Spark (from_json), and a partition lands when its oldest record is ten seconds old. Delta's members share one Spark
Connect server instead, as it has to be with a table on a local disk. Two members begin. After a quarter of the time a
third is started, at half of it the first is asked to end, at three quarters the second is killed (SIGKILL). Then the
producer ends, the third lands the rest, and is asked to end.

Each second the table itself is asked how far it has come, by its links; the lag is what was produced by then and has
not landed, in rows and in seconds (how long ago the oldest of it was produced, of all partitions). "committed" is the
lag by the group's commits, which is what Kafka's own tools show. Minutes after a change are also told apart.

In the end `sarameya verify` must find the table proved, and pyarrow each message once with its own values, and
nothing else; or else the run is shown as failed and the exit code is 1.

`day` plays it, `members` and `programs` are who takes part, `looking` asks the table, `figures` computes (pure).
"""

from __future__ import annotations

import argparse

from bench.common.options import add_usual_options, positive
from bench.common.presenting import present
from bench.landing_day.day import KINDS, MAX_AGE, PARTITIONS, SIZE, Plan, measure
from tests.integration.real_kafka import KAFKA_VERSION

SECONDS = 600
RATE = 10_000
_QUICK_SECONDS = 60


def add_options(parser: argparse.ArgumentParser) -> None:
    add_usual_options(parser, quick=f"{_QUICK_SECONDS} seconds", repeats=1)
    parser.add_argument("--seconds", type=positive, metavar="N", help=f"of each run (default: {SECONDS})")
    parser.add_argument("--rate", type=positive, default=RATE, metavar="N", help=f"rows a second (default: {RATE})")
    parser.add_argument(
        "--tables", nargs="+", default=[KINDS[0]], choices=KINDS, metavar="KIND", help=f"of: {', '.join(KINDS)}"
    )


def main(options: argparse.Namespace) -> int:
    """Measure and print; 1 where a run has failed. Raises JarsError."""
    seconds = options.seconds or (_QUICK_SECONDS if options.quick else SECONDS)
    plan = Plan(kinds=options.tables, repeats=options.repeats or 1, seconds=seconds, rate=options.rate)
    about = (
        f"Apache Kafka {KAFKA_VERSION}, one broker on this machine, {PARTITIONS} partitions, {plan.rate:,} events/s of"
        f" {SIZE} B for {plan.seconds} s, landings after {MAX_AGE:g} s"
    )
    return present("landing-day", about, measure(plan), options.json)
