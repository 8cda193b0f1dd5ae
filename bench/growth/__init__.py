"""Cost of a start and of landing in an old table: a long Parquet chain, a long Delta log, many Iceberg snapshots.

No Kafka: the bench opens a table and lands in it as a sink does, with one Spark (local[2]) for all. It makes a table
old by writing what a service would have written: manifests of links, commits and a checkpoint, or a table's metadata.
The data files that these name do not exist, since nobody reads them. A Delta table of 1,000,000 commits takes 1,000,000
files in the temporary directory, 5 GB, which are removed afterwards.

"start" is the time to open the table and find the heads of ten partitions: eight in which records land all the time,
one in which one link landed long ago, and a new one. "landing" is the time to land 100 records in a busy partition and
read their link back; the median of five. A Delta table also has a "first start": without the summary that an earlier
service has left, as after an upgrade. Delta has three kinds of logs: with a checkpoint and all commits, cleaned up to
the last 1,000 commits, and without any checkpoint. Without one a start reads every commit, so the greatest length is
100,000: at 1,000,000 a start had not ended after 42 minutes.

A length that cannot be measured is shown as failed and makes the exit code 1. A length whose rounds take longer than
five minutes has no further round. `--resume` continues a run that was interrupted: it takes over the tables that are in
the file of `--json` already.

`parquet`, `delta` and `iceberg` build tables, `rounds` measures, `figures` computes (pure).
"""

from __future__ import annotations

import argparse

from bench.common.documents import of_json
from bench.common.options import add_usual_options, positive, rounds_asked
from bench.common.presenting import present
from bench.growth.rounds import FORMATS, MASTER, Plan, measure

REPEATS = 3
LENGTHS = {
    "parquet": (1_000, 10_000, 100_000),
    "delta": (1_000, 100_000, 1_000_000),
    "iceberg": (100, 1_000, 10_000),
}
_QUICK_LENGTHS = {"parquet": (1_000, 10_000), "delta": (1_000, 10_000), "iceberg": (100, 1_000)}


def add_options(parser: argparse.ArgumentParser) -> None:
    add_usual_options(parser, quick="one round, shorter", repeats=REPEATS)
    parser.add_argument("--formats", nargs="+", default=list(FORMATS), choices=list(FORMATS), help="default: all")
    parser.add_argument("--resume", action="store_true", help="measure only what the file of --json does not have yet")
    parser.add_argument("--lengths", type=positive, nargs="+", metavar="N", help=f"of each format (default: {LENGTHS})")


def main(options: argparse.Namespace) -> int:
    """Measure and print. Return 1 if a length has failed, else 0.

    Raises:
        JarsError: The jars of Delta Lake and Iceberg cannot be collected.
    """
    lengths = _QUICK_LENGTHS if options.quick else LENGTHS
    plan = Plan(
        lengths={name: options.lengths or lengths[name] for name in options.formats},
        repeats=rounds_asked(options, REPEATS),
    )
    known = {}
    if options.resume and options.json is not None and options.json.exists():
        known = {table.title: table for table in of_json(options.json.read_text(encoding="utf-8")).tables}
    about = f"tables of several lengths, Spark {MASTER}, {plan.repeats} round(s)"
    return present("growth", about, measure(plan, known), options.json)
