"""What a rebalance costs: a third member's wait for its first message, a take-over, the pause of partitions kept.

Two members on six partitions of Apache Kafka; a third joins and, later, leaves in order, round after round. All of a
contender's rounds are at the same phases of its heartbeats, which are what most of the waiting is for.

`contenders` says who competes, `rounds` drives one group, `figures` computes from what its members told (pure),
`report` prints. The members are programs of their own: those of the integration tests, and sarama's (Go) in `sarama/`.
"""

from __future__ import annotations

import argparse

from bench.rebalance.report import report
from bench.rebalance.rounds import measure_all


def add_options(parser: argparse.ArgumentParser) -> None:
    """It has none."""


def main(options: argparse.Namespace) -> int:
    """Measure all contenders and print: about ten minutes. Raises GoError without Go."""
    report(measure_all())
    return 0
