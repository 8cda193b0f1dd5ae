"""Rate at which a full topic lands in Parquet and Delta: the SparkSink beside Spark's own Kafka source.

One broker of Apache Kafka, four partitions, filled before with events in JSON. Each contender is a program of its own
with its own JVM and, except for the jars of the Kafka source, the same SparkSession: local[2], with Spark's default
memory for the driver. "sarameya" is a SparkSink in the Python API, as the only member of a fresh group, because a
service (`sarameya run`) does not stop at the end of its topic. "spark-source" is Structured Streaming: readStream from
Kafka, the earliest offsets, availableNow, writeStream with a checkpoint. Options are the defaults, except for three:
the oldest offset as the start, headers in Spark's source, so that both tables have the same columns, and our byte
budget (`programs.sarameya_lander`). Each contender lands in a Parquet directory and in a Delta table: once the records
as they are, and once the columns of the events, which Spark's from_json parses for both.

Before the clock starts, the program lands another topic, half as long. Spark is running then, and the JVM's compilers
have seen all code and are nearly done. (With fewer messages before, the figures contain more of the compilers' work,
and Spark's source needs more of it than ours: --warm.) The rate is rows / the seconds from before a consumer is created
until all rows are in the table and their offsets are committed: ours to Kafka, Spark's to its checkpoint. CPU seconds
are those of the program and its JVM in that time. Peak RSS is the most that the program and all processes that it
starts had at once, from its start to its end. The broker shares the machine and is in neither figure. "files" are those
that readers see. A note below each table says where the seconds went, as each contender measures it. Seconds of several
threads at the same time add up there.

Contenders run one after another, each into a fresh local directory, which pyarrow reads at the end. A table must have
each message once, by partition, offset and value (or columns), and nothing else. Otherwise its run is shown as failed
and makes the exit code 1.

`programs` land, `jars` collects their jars with Maven, `rounds` runs them, `landed` reads the tables, `figures`
computes (pure).
"""

from __future__ import annotations

import argparse

from bench.common.options import add_usual_options, positive, rounds_asked
from bench.common.presenting import present
from bench.land.contenders import CASES, CONTENDERS
from bench.land.rounds import DRIVER_MEMORY, MASTER, PARTITIONS, SIZE, Plan, measure
from tests.integration.real_kafka import KAFKA_VERSION

REPEATS = 3
MESSAGES = 2_000_000
_QUICK_MESSAGES = 400_000


def add_options(parser: argparse.ArgumentParser) -> None:
    names = [contender.name for contender in CONTENDERS]
    add_usual_options(parser, quick="one round, fewer messages", repeats=REPEATS, contenders=names)
    parser.add_argument(
        "--cases",
        nargs="+",
        default=[case.name for case in CASES],
        choices=[case.name for case in CASES],
        metavar="NAME",
        help=f"run only these (default: all of {', '.join(case.name for case in CASES)})",
    )
    parser.add_argument(
        "--messages", type=positive, metavar="N", help=f"in all (default: {MESSAGES}, quick: {_QUICK_MESSAGES})"
    )
    parser.add_argument(
        "--warm", type=positive, metavar="N", help="messages that land before the clock starts (default: half as many)"
    )


def main(options: argparse.Namespace) -> int:
    """Measure and print, fifteen minutes by default. Return 1 if a contender has failed, else 0.

    Raises:
        JarsError: The jars cannot be collected.
        FillingError: A topic cannot be filled.
    """
    messages = options.messages or (_QUICK_MESSAGES if options.quick else MESSAGES)
    plan = Plan(
        cases=[case for case in CASES if case.name in options.cases],
        contenders=[contender for contender in CONTENDERS if contender.name in options.contenders],
        repeats=rounds_asked(options, REPEATS),
        messages=messages,
        warm_messages=options.warm or max(1, messages // 2),
    )
    about = (
        f"Apache Kafka {KAFKA_VERSION}, one broker on this machine, {PARTITIONS} partitions, {messages} messages"
        f" of {SIZE} B, Spark {MASTER} with {DRIVER_MEMORY} for its driver, {plan.repeats} round(s)"
    )
    return present("land", about, measure(plan), options.json)
