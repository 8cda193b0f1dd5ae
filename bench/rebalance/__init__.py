"""What a rebalance costs: a third member's wait for its first message, a take-over, the pause of partitions kept.

Two members on six partitions of Apache Kafka; a third joins and, later, leaves in order, round after round. All of a
contender's rounds are at the same phases of its heartbeats, which are what most of the waiting is for.

`contenders` says who competes, `rounds` drives one group, `figures` computes from what its members told (pure). The
members are programs of their own: those of the integration tests, and sarama's (Go) in `sarama/`.
"""

from __future__ import annotations

import argparse

from bench.common.options import add_usual_options, rounds_asked
from bench.common.presenting import present
from bench.rebalance.contenders import CONTENDERS
from bench.rebalance.rounds import OPTIONS, PARTITIONS, RATE, measure
from tests.integration.real_kafka import KAFKA_VERSION

REPEATS = 3


def add_options(parser: argparse.ArgumentParser) -> None:
    names = [str(contender) for contender in CONTENDERS]
    add_usual_options(parser, quick="one round", repeats=REPEATS, contenders=names)


def main(options: argparse.Namespace) -> int:
    """Measure and print. Raises GoError without Go."""
    repeats = rounds_asked(options, REPEATS)
    chosen = [contender for contender in CONTENDERS if str(contender) in options.contenders]
    about = (
        f"Apache Kafka {KAFKA_VERSION}, one broker on this machine, {PARTITIONS} partitions, {RATE:g} messages/s,"
        f" heartbeats each {OPTIONS['heartbeat_interval']:g} s, {repeats} round(s)"
    )
    return present("rebalance", about, measure(chosen, repeats), options.json)
