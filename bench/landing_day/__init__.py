"""Ten minutes of landing at a steady rate, while a member joins, one leaves and one is killed: lag, files, exactness.

One broker of Apache Kafka, six partitions, a producer that sends events in JSON at a steady rate. Members are processes
of `sarameya run` with the Spark sink and their own drivers, on local[2]. Spark parses the events (from_json); a
partition lands when its oldest record is ten seconds old. Members with a Delta table share one Spark Connect server
instead, as a table on a local disk requires. Two members start. After a quarter of the time a third one starts, at half
of it the first one leaves, at three quarters the second one is killed (SIGKILL). Then the producer ends, and the third
member lands the rest and leaves.

Each second the bench reads from the table's links which offsets have landed. The lag is the records that were produced
by then and have not landed, in rows and in seconds (the age of the oldest one, over all partitions). "committed" is the
lag by the group's committed offsets, which Kafka's own tools show. The minute after each change has its own row.

At the end `sarameya verify` must prove the table, and pyarrow must find each message once with its own values, and
nothing else. Otherwise the run is shown as failed and the exit code is 1.

`day` runs producer and members, `members` and `programs` have them, `landed_offsets` reads the table's links, `figures`
computes (pure).
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
    parser.add_argument("--seconds", type=positive, metavar="N", help=f"of a run (default: {SECONDS})")
    parser.add_argument("--rate", type=positive, default=RATE, metavar="N", help=f"rows a second (default: {RATE})")
    parser.add_argument(
        "--tables", nargs="+", default=[KINDS[0]], choices=KINDS, metavar="KIND", help=f"some of {', '.join(KINDS)}"
    )


def main(options: argparse.Namespace) -> int:
    """Measure and print. Return 1 if a run has failed, else 0.

    Raises:
        JarsError: The jars of Delta Lake cannot be collected.
    """
    seconds = options.seconds or (_QUICK_SECONDS if options.quick else SECONDS)
    plan = Plan(kinds=options.tables, repeats=options.repeats or 1, seconds=seconds, rate=options.rate)
    about = (
        f"Apache Kafka {KAFKA_VERSION}, one broker on this machine, {PARTITIONS} partitions, {plan.rate:,} events/s of"
        f" {SIZE} B for {plan.seconds} s, records land after {MAX_AGE:g} s"
    )
    return present("landing-day", about, measure(plan), options.json)
