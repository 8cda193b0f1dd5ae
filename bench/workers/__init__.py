"""Benefit of two worker processes: `sarameya run --workers 2` beside one worker, in one group, on a full topic.

One broker of Apache Kafka, four partitions, filled before. The service is started as users start it, with a handler
that counts. Each member's partitions are paused at first, and resumed together once every worker has its share, so that
neither starting nor joining is in the figures. The rate is messages / the seconds from the first message of any worker
to the last of all. The table also shows how many processors the workers and the broker kept busy meanwhile: they share
one machine.

A run that has not read exactly all messages is shown as failed and makes the exit code 1.

`handler` reads, `rounds` runs the service, `figures` computes (pure).
"""

from __future__ import annotations

import argparse

from bench.common.options import add_usual_options, positive, rounds_asked
from bench.common.presenting import present
from bench.workers.rounds import PARTITIONS, SIZE, Plan, measure
from tests.integration.real_kafka import KAFKA_VERSION

REPEATS = 3
MESSAGES = 8_000_000
_QUICK_MESSAGES = 400_000
WORKERS = (1, 2)


def add_options(parser: argparse.ArgumentParser) -> None:
    add_usual_options(parser, quick="one round, fewer messages", repeats=REPEATS)
    parser.add_argument(
        "--workers", type=positive, nargs="+", default=WORKERS, metavar="N", help=f"how many (default: {WORKERS})"
    )
    parser.add_argument("--messages", type=positive, metavar="N", help=f"in all (default: {MESSAGES})")


def main(options: argparse.Namespace) -> int:
    """Measure and print. Return 1 if a run has failed, else 0.

    Raises:
        FillingError: The topic cannot be filled.
    """
    plan = Plan(
        workers=options.workers,
        repeats=rounds_asked(options, REPEATS),
        messages=options.messages or (_QUICK_MESSAGES if options.quick else MESSAGES),
    )
    about = (
        f"Apache Kafka {KAFKA_VERSION}, one broker on this machine, {PARTITIONS} partitions, {plan.messages} messages"
        f" of {SIZE} B, {plan.repeats} round(s)"
    )
    return present("workers", about, measure(plan), options.json)
