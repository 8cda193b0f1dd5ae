"""What quiet partitions cost: CPU, memory, requests and bytes of a member assigned 1 or 1,000, beside the peers.

One broker of Apache Kafka, topics without a message. Each contender, with its client's defaults, is the one member of
a fresh group; once it has its partitions it is left alone for a few seconds, then looked at for some times of the
same length: CPU of the whole process, resident memory at the end of each, and what went over the wire, counted by a
proxy that stands between it and the broker. A figure is the median of these times.

How long a quiet fetch waits at the broker is each client's own: 0.5 s, but for franz-go's 5. Java is Kafka's console
consumer.

A contender that fails is shown as failed and makes the exit code 1.

`proxy` counts (`requests` is its pure half), `rounds` runs the members, `figures` computes (pure).
"""

from __future__ import annotations

import argparse

from bench.common.options import add_usual_options, positive, rounds_asked
from bench.common.presenting import present
from bench.idle.rounds import CONTENDERS, Plan, measure
from tests.integration.real_kafka import KAFKA_VERSION

REPEATS = 3
SECONDS = 3
PARTITIONS = (1, 1000)


def add_options(parser: argparse.ArgumentParser) -> None:
    names = [contender.name for contender in CONTENDERS]
    add_usual_options(parser, quick="one time instead of several", repeats=REPEATS, contenders=names)
    parser.add_argument("--seconds", type=positive, default=SECONDS, metavar="N", help=f"of each (default: {SECONDS})")
    parser.add_argument(
        "--partitions", type=positive, nargs="+", default=PARTITIONS, metavar="N", help=f"default: {PARTITIONS}"
    )


def main(options: argparse.Namespace) -> int:
    """Measure and print; 1 where a contender has failed. Raises GoError without Go."""
    plan = Plan(
        contenders=[contender for contender in CONTENDERS if contender.name in options.contenders],
        partitions=options.partitions,
        windows=rounds_asked(options, REPEATS),
        seconds=options.seconds,
    )
    about = (
        f"Apache Kafka {KAFKA_VERSION}, one broker on this machine, partitions without a message;"
        f" {plan.windows} time(s) of {plan.seconds} s"
    )
    return present("idle", about, measure(plan), options.json)
