"""How fast a topic is read: messages a second of one consumer, beside every peer, on a Kafka full of messages.

One broker of Apache Kafka, four partitions, filled before. Each contender is a program of its own: the only member of a
fresh group, which reads every message from the oldest on, looks at the length of its value, and commits nothing. The
contenders run one after another, round by round; a figure is the median of the rounds.

THE FIGURE is messages / the seconds from a contender's first message to its last: starting, joining and looking up
offsets are not in it ("from start" has them). CPU is of the whole program, user and system, its starting included.
Java's ConsumerPerformance tells no time of a first message: for it the seconds run from its first assignment. Options
are each client's defaults, but for the oldest offset as the start and autocommit, which is off; "confluent-tuned" has
fetch.queue.backoff.ms = 0 besides, without which librdkafka is idle most of the time.

A contender that fails, or has not read exactly what there is, is shown as failed and makes the exit code 1.

The first combination of size, codec and values is for all contenders; the others are for ours, sarama, and the Python
peer that was the fastest in the first. --all is for everyone at everything. Random values with a codec are sent
without it by librdkafka, which fills the topics, wherever they do not shrink: the column "in the log" tells.

`options` says what is to be measured, `filling` fills a topic, `contenders` and `programs`, `go` are who competes,
`rounds` runs them, `figures` computes (pure), `report` prints, `document` is for programs.
"""

from __future__ import annotations

import argparse
import json

from bench.consume.document import document
from bench.consume.options import Plan, add_options
from bench.consume.report import print_report
from bench.consume.rounds import measure

__all__ = ["add_options", "main"]


def main(options: argparse.Namespace) -> int:
    """Measure and print, at most ten minutes by default; 1 where a contender has failed. Raises GoError without Go."""
    plan = Plan.of(options)
    if options.json is not None:
        options.json.touch()  # a path that cannot be written is told before anything takes time
    run = print_report(plan, measure(plan))
    if options.json is not None:
        options.json.write_text(json.dumps(document(run), indent=2) + "\n", encoding="utf-8")
    return int(any(field.failed for field in run.fields))
