"""Effect of one slow partition on the other partitions of a member: the rate that these lose, beside every peer.

One broker of Apache Kafka full of messages, four partitions. The only member of a fresh group reads the first three as
fast as it can. The fourth one either has nothing to read ("alone"), or is full as well, with a handler that takes 50 ms
a message ("beside a slow one"). A figure is the rate of the three in the first seconds, or until they are read
completely. "lost" is the part of the rate that the slow one costs, with both runs in the same round. Contenders run one
after another, round by round.

Sarameya and sarama have a task for each partition, which sleeps. The others pass messages to one loop, so that a slow
partition delays all. "aiokafka-tasks" has a task with getmany for each partition. "confluent-threads" has one loop that
passes messages to a thread for each partition, and pauses partitions whose threads lag, as its manual recommends.

A contender that fails is shown as failed and makes the exit code 1.

`rounds` runs the members, `figures` computes (pure).
"""

from __future__ import annotations

import argparse

from bench.common.options import add_usual_options, positive, rounds_asked
from bench.common.presenting import present
from bench.slow_partition.rounds import CONTENDERS, PACE, SIZE, Plan, measure
from tests.integration.real_kafka import KAFKA_VERSION

REPEATS = 3
SECONDS = 3
MESSAGES = 1_500_000
_QUICK_MESSAGES = 200_000


def add_options(parser: argparse.ArgumentParser) -> None:
    names = [contender.name for contender in CONTENDERS]
    add_usual_options(parser, quick="one round, fewer messages", repeats=REPEATS, contenders=names)
    parser.add_argument("--seconds", type=positive, default=SECONDS, metavar="N", help=f"of a run (default: {SECONDS})")
    parser.add_argument("--messages", type=positive, metavar="N", help=f"in each partition (default: {MESSAGES})")


def main(options: argparse.Namespace) -> int:
    """Measure and print. Return 1 if a contender has failed, else 0.

    Raises:
        GoError: The programs in Go cannot be built.
        FillingError: A topic cannot be filled.
    """
    plan = Plan(
        contenders=[contender for contender in CONTENDERS if contender.name in options.contenders],
        repeats=rounds_asked(options, REPEATS),
        seconds=options.seconds,
        messages=options.messages or (_QUICK_MESSAGES if options.quick else MESSAGES),
    )
    about = (
        f"Apache Kafka {KAFKA_VERSION}, one broker on this machine, four partitions of {plan.messages} messages"
        f" of {SIZE} B, one of them at {PACE * 1000:g} ms a message; {plan.seconds} s each, {plan.repeats} round(s)"
    )
    return present("slow-partition", about, measure(plan), options.json)
