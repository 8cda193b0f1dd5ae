"""Latency from produce to the handler, at a thousand messages a second, beside every peer.

One broker of Apache Kafka, four partitions. A separate producer (librdkafka, linger.ms = 0, acks = all: the same one
for all contenders) sends a message each millisecond. The value has a stamp with the monotonic time, made before
`produce` is called. The only member of a fresh group receives the message, and reads the clock. Contenders run one
after another, round by round; each figure is the median of the rounds' own percentiles. The first second of a round is
not counted. "acknowledged" is the time until the producer receives the acknowledgement that its message is in the log:
about the earliest time at which any consumer could have the message.

The broker responds to each client's fetch as soon as there is one byte (fetch.min.bytes = 1 is everyone's default). So
the defaults are the settings for low latency, except for two things. Each client runs with its defaults: it marks each
message, and commits marks as often as it does by default. Ours and confluent-kafka also run "tuned": without commits,
and confluent-kafka with socket.nagle.disable besides. One pause of the broker, or of the machine, can determine a
round's p99, so there are many rounds. Our loop is `async for message in claim`, aiokafka's is `async for`, and
confluent-kafka's is poll.

A contender that fails, or does not receive each message once, is shown as failed and makes the exit code 1.

`producer` sends, `rounds` runs members and producer, `figures` computes (pure).
"""

from __future__ import annotations

import argparse

from bench.common.options import add_usual_options, positive, rounds_asked
from bench.common.presenting import present
from bench.latency.contenders import CONTENDERS
from bench.latency.rounds import PARTITIONS, RATE, SIZE, measure
from tests.integration.real_kafka import KAFKA_VERSION

REPEATS = 6
SECONDS = 6
_QUICK_SECONDS = 2


def add_options(parser: argparse.ArgumentParser) -> None:
    names = [contender.name for contender in CONTENDERS]
    add_usual_options(parser, quick="one round, of two seconds", repeats=REPEATS, contenders=names)
    parser.add_argument("--seconds", type=positive, metavar="N", help=f"of a round (default: {SECONDS}, quick: 2)")


def main(options: argparse.Namespace) -> int:
    """Measure and print. Return 1 if a contender has failed, else 0.

    Raises:
        GoError: The programs in Go cannot be built.
    """
    repeats = rounds_asked(options, REPEATS)
    seconds = options.seconds or (_QUICK_SECONDS if options.quick else SECONDS)
    chosen = [contender for contender in CONTENDERS if contender.name in options.contenders]
    about = (
        f"Apache Kafka {KAFKA_VERSION}, one broker on this machine, {PARTITIONS} partitions, {RATE} messages/s"
        f" of {SIZE} B, {seconds} s each, {repeats} round(s)"
    )
    return present("latency", about, measure(chosen, repeats, seconds), options.json)
