"""How late a message is: from produce to the handler, a thousand messages a second, beside every peer.

One broker of Apache Kafka, four partitions. A producer of its own (librdkafka, linger.ms = 0, acks = all: the same
for all) sends a message each millisecond, with the monotonic time in its value, stamped before `produce` is called.
The one member of a fresh group takes it, and looks at the clock. The contenders run one after another, round by
round; each figure is the median of the rounds' own percentiles. The first second of a round is not counted.
"acknowledged" is when the producer has heard that its message is in the log: about as early as any consumer could
have it.

Every client answers a fetch here as soon as there is one byte (fetch.min.bytes = 1 is everyone's default), so that
settings for low latency are the defaults but for two things. Each client runs as it is by default, with each message
marked and marks committed as often as is its default; ours and confluent-kafka also "tuned", with commits off, and, for
confluent-kafka, socket.nagle.disable besides. A pause of the broker, or of the machine, decides over a round's p99:
that is why there are many rounds. Ours is `async for message in claim`, aiokafka's is `async for`, confluent-
kafka's is poll.

A contender that fails, or has not had each message once, is shown as failed and makes the exit code 1.

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
    parser.add_argument("--seconds", type=positive, metavar="N", help=f"a round's (default: {SECONDS}, quick: 2)")


def main(options: argparse.Namespace) -> int:
    """Measure and print; 1 where a contender has failed. Raises GoError without Go."""
    repeats = rounds_asked(options, REPEATS)
    seconds = options.seconds or (_QUICK_SECONDS if options.quick else SECONDS)
    chosen = [contender for contender in CONTENDERS if contender.name in options.contenders]
    about = (
        f"Apache Kafka {KAFKA_VERSION}, one broker on this machine, {PARTITIONS} partitions, {RATE} messages/s"
        f" of {SIZE} B, {seconds} s each, {repeats} round(s)"
    )
    return present("latency", about, measure(chosen, repeats, seconds), options.json)
