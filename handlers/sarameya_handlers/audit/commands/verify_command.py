"""`sarameya verify TABLE`: proves that a table holds each record exactly once, or reports why not."""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence

import trio

from sarameya.service import Cluster, Steps, epilog, steps
from sarameya_handlers.audit.commands import arguments
from sarameya_handlers.audit.commands.results import TableResult, for_each, show_all
from sarameya_handlers.audit.spark_thread import Run, open_run, without_spark
from sarameya_handlers.audit.verify.fact_collection import Audit, gather
from sarameya_handlers.audit.verify.findings import SEVERITY, Code, Severity
from sarameya_handlers.audit.verify.report import report_document, report_text
from sarameya_handlers.audit.verify.verdict import is_proved, judge
from sarameya_handlers.spark.tables.table import Table

_EXIT_CODES = "0 proved, 1 not proved: something is wrong, or may be, 2 the command line or configuration must change"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the command to `parser`."""
    parser.description = (
        "Prove that the table holds each record exactly once: its links have no gap, each range has exactly the rows "
        "that its commit recorded, and no row is outside of a range. With a cluster, also prove that landing can "
        "continue: the table matches its groups' committed offsets and the logs."
    )
    parser.epilog = epilog(
        "sarameya verify parquet:landing/orders",
        "sarameya verify delta:/lake/orders --app landing.toml --json",
        "sarameya verify --app landing.toml",
        "sarameya verify iceberg:lake.db.orders --bootstrap localhost:9092 --conf spark.jars=iceberg.jar",
        exit_codes=_EXIT_CODES,
    )
    parser.add_argument(
        "--accept",
        dest="accepted",
        type=_code,
        action="append",
        default=[],
        metavar="CODE",
        help="a kind of finding that is no defect here: rows-missing if rows were deleted on purpose, offsets-repeated "
        "if a transform makes several rows of a record; may be repeated",
    )
    parser.add_argument("--links-only", action="store_true", help="prove the links only; do not count rows")
    arguments.add_arguments(parser)
    parser.set_defaults(run=run)


def _code(text: str) -> Code:
    known = [str(code) for code, severity in SEVERITY.items() if severity is not Severity.NOTE]
    if text not in known:
        raise argparse.ArgumentTypeError(f"{text!r} is not a kind of finding; choose from {', '.join(known)}")
    return Code(text)


def run(args: argparse.Namespace) -> int:
    """Verify the tables. Return 0 if all are proved, else 1.

    Raises:
        SarameyaError: A table cannot be read.
    """
    return show_all(trio.run(_verify, args, arguments.tables_of(args), arguments.cluster_of(args)), args)


async def _verify(args: argparse.Namespace, tables: Sequence[Table], place: Cluster | None) -> list[TableResult]:
    async def work(table: Table) -> TableResult:
        facts = await gather(_audit(args, table, place, run, progress), time.time())
        findings = judge(facts, args.accepted)
        return TableResult(report_text(facts, findings), report_document(facts, findings), is_proved(findings))

    with steps(quiet=args.quiet) as progress:
        async with open_run(tables, arguments.spark_options(args), progress, by_spark=bool(args.spark)) as run:
            return await for_each(args, tables, work)


def _audit(args: argparse.Namespace, table: Table, place: Cluster | None, run: Run, progress: Steps) -> Audit:
    by_spark = table.needs_spark or bool(args.spark)
    return Audit(
        table=table,
        run=run if by_spark else without_spark,
        place=place,
        counts_rows=not args.links_only,
        by_spark=by_spark,
        progress=progress,
    )
