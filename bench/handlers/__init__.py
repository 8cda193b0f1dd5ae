"""Handlers that wait 10 ms for each message, in order by partition, by key, or in none: throughput and latency.

One broker of Apache Kafka, four partitions, 1,000 keys. A handler sleeps for each message, as if it called a service.
The only member of a fresh group handles up to 50 messages at the same time, which makes 5,000 messages a second
possible; in order by partition it handles one of each partition, which makes 400. Each contender commits as often as it
does by default. Contenders run one after another, round by round; a figure is the median of the rounds.

A member first handles a backlog: "messages/s" is its rate from the first message to the last, and CPU time is that of
the whole program, user and system, meanwhile. Then a fresh member handles messages that a steady producer sends at 60 %
of what is possible. A latency is the time from the stamp that the producer puts into a message to the end of its
handling, so it is at least 10 ms. The first two seconds are not counted.

Ours is `MessageHandler`. "parallel-consumer" is Confluent's Parallel Consumer (Java), which has a thread for each
message that is handled. "aiokafka-pool" is what users of aiokafka write: a task for each key, a semaphore, and commits
of the lowest unfinished offset.

The last table has the cost of marking messages one by one in any order, in CPU time a message. "concurrently" and
"claim" are members that read a full topic by `claim.concurrently(50)` and by `async for message in claim`, and mark
each message at once. "tracker alone" is a loop without a broker: messages are handed out, finish in random order with
50 unfinished ones, and are committed with metadata after each 1,000.

A contender that fails, or does not handle each message once and in its order, is shown as failed and makes the exit
code 1.

`rounds` runs members and producer, `tracker` is the loop, `figures` computes (pure).
"""

from __future__ import annotations

import argparse

from bench.common.options import add_usual_options, positive, rounds_asked
from bench.common.presenting import present
from bench.handlers.figures import CONCURRENCY, KEYS, PACE, PARTITIONS
from bench.handlers.rounds import CONTENDERS, SIZE, Plan, measure
from tests.integration.real_kafka import KAFKA_VERSION

REPEATS = 3
SECONDS = 6
_QUICK_SECONDS = 2
TRACKED = 1_000_000
_QUICK_TRACKED = 100_000


def add_options(parser: argparse.ArgumentParser) -> None:
    names = [contender.name for contender in CONTENDERS]
    add_usual_options(parser, quick="one round, of two seconds", repeats=REPEATS, contenders=names)
    parser.add_argument("--seconds", type=positive, metavar="N", help=f"of a run (default: {SECONDS}, quick: 2)")


def main(options: argparse.Namespace) -> int:
    """Measure and print. Return 1 if a contender has failed, else 0.

    Raises:
        JarsError: Parallel Consumer cannot be downloaded.
        FillingError: A topic cannot be filled.
    """
    plan = Plan(
        contenders=[contender for contender in CONTENDERS if contender.name in options.contenders],
        repeats=rounds_asked(options, REPEATS),
        seconds=options.seconds or (_QUICK_SECONDS if options.quick else SECONDS),
        tracked=_QUICK_TRACKED if options.quick else TRACKED,
    )
    about = (
        f"Apache Kafka {KAFKA_VERSION}, one broker on this machine, {PARTITIONS} partitions, {KEYS} keys, messages of"
        f" {SIZE} B, {PACE * 1000:g} ms each, {CONCURRENCY} at the same time, {plan.seconds} s each,"
        f" {plan.repeats} round(s)"
    )
    return present("handlers", about, measure(plan), options.json)
