"""`sarameya sweep TABLE --older-than AGE`: removes files of failed writes, and of attempts that lost."""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

import attrs
import trio

from sarameya import ConfigError
from sarameya.service import Steps, epilog, steps
from sarameya_handlers.audit.commands import arguments
from sarameya_handlers.audit.commands.results import TableResult, for_each, show_all
from sarameya_handlers.audit.driver_check import lock_for_driver
from sarameya_handlers.audit.spark_thread import Run, open_run
from sarameya_handlers.audit.sweep_plan import (
    SAFE_AGE,
    Sweep,
    Swept,
    plan_sweep,
    restated,
    sweep_document,
    sweep_text,
    to_restate,
)
from sarameya_handlers.audit.wording import age
from sarameya_handlers.landing.links import Link
from sarameya_handlers.spark.errors import LandingError, cause_of
from sarameya_handlers.spark.tables.table import KeptLeftoverError, Landing, Table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the command to `parser`."""
    parser.description = (
        "Show files left by failed writes, or by attempts that lost to another owner, and with --execute remove them. "
        "No link names these files, and no reader sees them. --execute also finishes a compaction that was killed. "
        "Members may continue to land meanwhile. Exceptions are tables to which two Spark drivers must not commit "
        "at once (Delta, or Iceberg in a Hadoop catalog, on a local or mounted file system), if the sweep starts its "
        "own driver: see --single-driver."
    )
    parser.epilog = epilog(
        "sarameya sweep parquet:landing/orders --older-than 1d",
        "sarameya sweep delta:/lake/orders --older-than 12h --single-driver --execute",
        "sarameya sweep --app landing.toml --older-than 1d --execute",
        exit_codes="0 done, or shown; 1 something could not be removed; 2 the command line must change",
    )
    parser.add_argument(
        "--older-than",
        type=arguments.seconds,
        required=True,
        metavar="AGE",
        help="remove only files unchanged for this time: 90min, 12h, 1d, 2w",
    )
    parser.add_argument("--execute", action="store_true", help="remove the files; by default they are only shown")
    parser.add_argument(
        "--force",
        action="store_true",
        help=f"allow less than {age(SAFE_AGE)}: writes under way fail, and are retried",
    )
    parser.add_argument(
        "--single-driver",
        action="store_true",
        help="confirm that no other Spark driver commits to the table meanwhile: its members are stopped, or land "
        "through the Spark that --spark names; for tables that lose a commit if two drivers commit at once",
    )
    arguments.add_arguments(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Sweep, or show the plan. Return 0 if no removal failed.

    Raises:
        SarameyaError: The arguments are invalid, or the table cannot be read.
    """
    if args.older_than < SAFE_AGE and not args.force:
        raise ConfigError(
            "--older-than",
            age(args.older_than),
            f"must be at least {age(SAFE_AGE)}: younger files may belong to a write under way, which would fail and be "
            "retried; --force allows it",
        )
    return show_all(trio.run(_sweep_all, args, arguments.tables_of(args)), args)


async def _sweep_all(args: argparse.Namespace, tables: Sequence[Table]) -> list[TableResult]:
    async def work(table: Table) -> TableResult:
        sweep = await _sweep(args, table, run, progress)
        is_good = not any(swept.error for swept in sweep.plan)
        return TableResult(sweep_text(sweep), sweep_document(sweep), is_good)

    with steps(quiet=args.quiet) as progress:
        async with open_run(tables, arguments.spark_options(args), progress, by_spark=bool(args.spark)) as run:
            return await for_each(args, tables, work)


async def _sweep(args: argparse.Namespace, table: Table, run_in_thread: Run, progress: Steps) -> Sweep:
    if args.execute:
        await run_in_thread(lambda spark: lock_for_driver(spark, table, confirmed=args.single_driver))
    progress(f"{table.name}: looking for leftovers")
    unpublished = await run_in_thread(table.unpublished)
    if args.execute and unpublished:
        await run_in_thread(table.recover)
    plan = plan_sweep(await run_in_thread(table.leftovers), args.older_than, time.time(), is_forced=args.force)
    heads = await run_in_thread(lambda spark: table.heads(spark, table.keys(spark)))
    restate = to_restate(heads.values(), plan)
    if args.execute and any(swept.is_due for swept in plan):
        progress("removing them", sum(swept.is_due for swept in plan))
        plan = await _execute(run_in_thread, table, plan, restate, progress)
    return Sweep(
        table=table.name,
        older_than=args.older_than,
        is_executed=args.execute,
        unpublished=unpublished,
        restate=restate,
        plan=plan,
    )


async def _execute(
    run_in_thread: Run, table: Table, plan: Sequence[Swept], restate: Sequence[Link], progress: Steps
) -> list[Swept]:
    if restate:
        await run_in_thread(lambda spark: restate_heads(spark, table, restate, time.time()))
    # List the leftovers again: an attempt may have won before its chain got the empty link, so its files are in use.
    # From now on none of the other attempts can win.
    unused = {leftover.name for leftover in await run_in_thread(table.leftovers)}
    done: list[Swept] = []
    for swept in plan:
        if swept.is_due and swept.leftover.name in unused:
            swept = await run_in_thread(lambda spark, swept=swept: _removed(spark, table, swept))  # type: ignore[misc]
        done.append(swept)
        progress.update(sum(each.is_due for each in done))
    return done


def restate_heads(spark: SparkSession, table: Table, heads: Sequence[Link], now: float) -> None:
    """Append an empty link after each of these heads, unless another process has appended one. Blocking.

    Raises:
        LandingError: A head still has no link after it.
    """
    table.open_unstaged(spark)
    for first in range(0, len(heads), table.landings_per_job):
        batch = heads[first : first + table.landings_per_job]
        landings = [Landing(link=restated(head, now), staged=None) for head in batch]
        table.land(spark, landings, _NoRows(), lambda phase, landings: None)
        found = table.heads(spark, [head.key for head in batch])
        for head in batch:
            if head.key not in found or found[head.key].number <= head.number:
                raise LandingError(
                    f"no empty link could be appended after {head}, so nothing is removed; run the command again"
                )


class _NoRows:
    """Rows of links that have none."""

    is_plain = True

    def frame(self, spark: SparkSession, landing: Landing) -> DataFrame:
        """Raise: no link has rows."""
        raise AssertionError(f"{landing} has no rows")

    def frames(self, spark: SparkSession, landings: Sequence[Landing]) -> Sequence[DataFrame]:
        """Raise, as `frame` does: no link has rows."""
        return [self.frame(spark, landing) for landing in landings]


def _removed(spark: SparkSession, table: Table, swept: Swept) -> Swept:
    try:
        table.remove(spark, swept.leftover)
    except KeptLeftoverError as reason:
        return attrs.evolve(swept, kept=str(reason))
    except Exception as error:  # noqa: BLE001  any error of the storage is reported, and the next file is tried
        return attrs.evolve(swept, error=cause_of(error))
    return attrs.evolve(swept, is_removed=True)
