"""Cost of a rebalance: a third member's wait for its first message, a take-over, and the pause of kept partitions.

Two members own six partitions of Apache Kafka. A third one joins and, later, leaves the group, round after round. Most
of the waiting is for heartbeats, so the rounds of each contender are at the same phases of its heartbeats.

`contenders` has the contenders, `rounds` runs one group, `figures` computes from its members' reports (pure). The
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
    """Measure and print. Return the exit code.

    Raises:
        GoError: The program in Go cannot be built.
    """
    repeats = rounds_asked(options, REPEATS)
    chosen = [contender for contender in CONTENDERS if str(contender) in options.contenders]
    about = (
        f"Apache Kafka {KAFKA_VERSION}, one broker on this machine, {PARTITIONS} partitions, {RATE:g} messages/s,"
        f" a heartbeat every {OPTIONS['heartbeat_interval']:g} s, {repeats} round(s)"
    )
    return present("rebalance", about, measure(chosen, repeats), options.json)
