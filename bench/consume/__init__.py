"""Rate of one consumer that reads a topic like an application: keys and values read, messages marked, commits made.

One broker of Apache Kafka, four partitions, filled before. Each contender is a program of its own: the only member of
a fresh group, which reads every message from the oldest on, adds up the lengths of keys and values, marks messages
where its client wants that, and commits as the client does by default. Contenders run one after another, round by
round; a figure is the median of the rounds.

The rate is messages / the seconds from a contender's first message to its last: starting, joining and looking up
offsets are not in it ("from start" has them). "CPU, ns" is the processor time of the whole program, user and system,
between the same two moments, for one message. Java's ConsumerPerformance says neither: its seconds run from its first
assignment, and its CPU time has the start of its JVM in it. Options are each client's defaults, except for the oldest
offset as the start; "confluent-tuned" has `fetch.queue.backoff.ms = 0` besides, without which librdkafka is idle most
of the time.

A contender that fails, or has not read exactly all messages, is shown as failed and makes the exit code 1.

The first combination of size, codec and values is for all contenders; the others are for ours, sarama, and the Python
peer that was the fastest in the first. `--all` is for all contenders at all combinations. Values are random ones
without a codec, and compressible ones with one: random ones do not shrink, so librdkafka, which fills the topics, sends
them uncompressed.

`options` parses what to measure, `contenders`, `programs` and `go` have the contenders, `rounds` runs them, `figures`
computes (pure).
"""

from __future__ import annotations

import argparse

from bench.common.filling import BATCH_BYTES
from bench.common.presenting import present
from bench.consume.options import PARTITIONS, Plan, add_options
from bench.consume.rounds import measure
from tests.integration.real_kafka import KAFKA_VERSION

__all__ = ["add_options", "main"]


def main(options: argparse.Namespace) -> int:
    """Measure and print, eight minutes by default; 1 where a contender has failed. Raises GoError without Go."""
    plan = Plan.of(options)
    about = (
        f"Apache Kafka {KAFKA_VERSION}, one broker on this machine, {PARTITIONS} partitions, record batches of at most"
        f" {BATCH_BYTES // 1024} KiB, {plan.repeats} round(s)"
    )
    return present("consume", about, measure(plan), options.json)
