"""Memory of a member whose handler lags: resident memory over time, on 1 and on 1,000 full partitions.

One broker of Apache Kafka, full topics of messages of 1,000 bytes. The handler is slow (it sleeps for each message)
or stuck (it takes none). Ours runs with two sizes of its byte budget (`Config.fetch_buffer_bytes`); the peers run with
their defaults, and with slow handlers only. Each contender is the only member of a fresh group.

"loaded" is the program with its libraries, before its client is created. "base" is the same member with all partitions
assigned and nothing to read: its group has committed the log ends. "peak" is the maximum while the handler lags, "over
base" the difference. With a budget, the goal for the difference is the budget, an eighth of it for the response that is
being received, and 5 MB for the member at work. "slope" is the slope of a line through the last half of that time,
"grown" the rise of that line as a part of the peak.

Sarameya and sarama have a task for each partition, which sleeps. The others have one loop, so they handle fewer
messages in all: see "handled".

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
        "--seconds", type=positive, metavar="N", help=f"of a run (default: {SECONDS}, quick: {_QUICK_SECONDS})"
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
    """Measure and print. Return 1 if a contender has failed, else 0.

    Raises:
        GoError: The programs in Go cannot be built.
        FillingError: A topic cannot be filled.
    """
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
