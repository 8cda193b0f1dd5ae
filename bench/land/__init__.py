"""How fast a full topic lands in Parquet and Delta through Spark: the SparkSink beside Spark's own Kafka source.

One broker of Apache Kafka, four partitions, filled before with events in JSON. Each contender is a program of its own
with a JVM of its own and, but for the jars of the Kafka source, the same SparkSession: local[2], with as much memory
for the driver as Spark gives it by default. "sarameya" is a SparkSink, as the one member of a fresh group, in the
Python API: a service (`sarameya run`) does not end where its topic does. "spark-source" is Structured Streaming:
readStream from Kafka, the earliest offsets, availableNow, writeStream with a checkpoint. Options are the defaults, but
for the oldest offset as the start, headers in Spark's source, so that both tables have the same columns, and the byte
budget of ours (`programs.sarameya_lander`). Each lands in a Parquet directory and in a Delta table, the records as they
are, and the columns of the events, which Spark's from_json gets out of them in both.

Before the clock starts, the program lands another topic, half as long, so that Spark is there and the JVM's compilers
have seen all code and are nearly done. (The less is landed before, the more of their work is in the figures, and there
it is more for Spark's source than for ours: --warm.) THE FIGURE is rows / the seconds from before a consumer is made
until all rows are in the table and their offsets are committed: ours to Kafka, Spark's to its checkpoint. CPU seconds
are the program's and its JVM's in that time, peak RSS is the most that the program and all that it starts had at once,
from its start to its end. The broker shares the machine and is in neither. "files" are those that readers see. Below
each table stands where the seconds went, by each one's own account; what several threads do at once counts for each
there.

The contenders take turns, each into a fresh local directory, which pyarrow reads in the end. A landing whose table has
not each message once, by partition, offset and value (or columns), and nothing else, is shown as failed and makes the
exit code 1.

`programs` land, `jars` collects what they need by Maven, `rounds` runs them, `landed` reads the tables, `figures`
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
        help=f"only these; there are: {', '.join(case.name for case in CASES)}",
    )
    parser.add_argument(
        "--messages", type=positive, metavar="N", help=f"in all (default: {MESSAGES}, quick: {_QUICK_MESSAGES})"
    )
    parser.add_argument("--warm", type=positive, metavar="N", help="messages landed before (default: half as many)")


def main(options: argparse.Namespace) -> int:
    """Measure and print, fifteen minutes by default; 1 where a landing has failed. Raises JarsError, FillingError."""
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
