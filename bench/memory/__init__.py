"""What memory a member takes whose handler is behind: resident memory over time, on 1 and on 1,000 full partitions.

One broker of Apache Kafka, full topics of messages of 1,000 bytes. The handler is slow (it sleeps for each message)
or stuck (it takes none). Ours has its byte budget (`Config.fetch_buffer_bytes`) at two sizes; the peers have their
defaults, and slow handlers only. Each contender is the one member of a fresh group.

"loaded" is the program with its libraries, before its client is made; "base" the same member with all its partitions
assigned and nothing to read (its group's commits are at their ends). "peak" is the most in the time under
backpressure, "over base" the difference. Where there is a budget, that is to be no more than the budget, an eighth of
it for the answer that is being received, and 5 MB for the member at work. "slope" is that of a line through the last
half of that time, "grown" by how much of the peak that line rises.

A handler of ours and of sarama's has a task for each partition, which sleeps; those of the others are one loop, so
that they take less in all: see "handled".

A contender that fails is shown as failed and makes the exit code 1.

`rounds` runs the members, `figures` computes (pure).
"""

from __future__ import annotations

import argparse

from bench.common.options import add_usual_options, positive, rounds_asked
from bench.common.presenting import present
from bench.memory.rounds import CONTENDERS, PACES, SIZE, Plan, measure
from tests.integration.real_kafka import KAFKA_VERSION

REPEATS = 1
SECONDS = 8
MEGABYTES = 600
PARTITIONS = (1, 1000)
_QUICK_SECONDS = 3
_QUICK_MEGABYTES = 150


def add_options(parser: argparse.ArgumentParser) -> None:
    names = [contender.name for contender in CONTENDERS]
    add_usual_options(parser, quick="shorter, on less full topics", repeats=REPEATS, contenders=names)
    parser.add_argument(
        "--seconds", type=positive, metavar="N", help=f"of backpressure (default: {SECONDS}, quick: {_QUICK_SECONDS})"
    )
    parser.add_argument(
        "--megabytes",
        type=positive,
        metavar="N",
        help=f"in each topic (default: {MEGABYTES}, quick: {_QUICK_MEGABYTES})",
    )
    parser.add_argument(
        "--partitions", type=positive, nargs="+", default=PARTITIONS, metavar="N", help=f"default: {PARTITIONS}"
    )
    parser.add_argument(
        "--handlers", nargs="+", default=list(PACES), choices=list(PACES), help="default: both, the peers slow only"
    )


def main(options: argparse.Namespace) -> int:
    """Measure and print; 1 where a contender has failed. Raises GoError without Go, FillingError."""
    plan = Plan(
        contenders=[contender for contender in CONTENDERS if contender.name in options.contenders],
        partitions=options.partitions,
        handlers=options.handlers,
        repeats=rounds_asked(options, REPEATS),
        seconds=options.seconds or (_QUICK_SECONDS if options.quick else SECONDS),
        messages=1_000_000 * (options.megabytes or (_QUICK_MEGABYTES if options.quick else MEGABYTES)) // SIZE,
    )
    about = (
        f"Apache Kafka {KAFKA_VERSION}, one broker on this machine, topics of {plan.messages} messages of {SIZE} B;"
        f" {plan.seconds} s each, {plan.repeats} round(s)"
    )
    return present("memory", about, measure(plan), options.json)
