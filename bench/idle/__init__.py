"""Cost of quiet partitions: CPU, memory, requests and bytes of a member with 1 or 1,000 of them, beside the peers.

One broker of Apache Kafka, topics without messages. Each contender, with its client's defaults, is the only member of a
fresh group. Once its partitions are assigned, the bench waits a few seconds, and then measures several periods of the
same length: the CPU time of the whole process, its resident memory at the end, and the requests and bytes on the wire,
which a proxy between the member and the broker counts. A figure is the median of the periods.

Each client decides how long a fetch without records waits at the broker: 0.5 s, but 5 s for franz-go. "java" is Kafka's
console consumer.

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
    add_usual_options(parser, quick="one period instead of several", repeats=REPEATS, contenders=names)
    parser.add_argument(
        "--seconds", type=positive, default=SECONDS, metavar="N", help=f"length of a period (default: {SECONDS})"
    )
    parser.add_argument(
        "--partitions", type=positive, nargs="+", default=PARTITIONS, metavar="N", help=f"default: {PARTITIONS}"
    )


def main(options: argparse.Namespace) -> int:
    """Measure and print. Return 1 if a contender has failed, else 0.

    Raises:
        GoError: The programs in Go cannot be built.
    """
    plan = Plan(
        contenders=[contender for contender in CONTENDERS if contender.name in options.contenders],
        partitions=options.partitions,
        periods=rounds_asked(options, REPEATS),
        seconds=options.seconds,
    )
    about = (
        f"Apache Kafka {KAFKA_VERSION}, one broker on this machine, partitions without a message;"
        f" {plan.periods} period(s) of {plan.seconds} s"
    )
    return present("idle", about, measure(plan), options.json)
