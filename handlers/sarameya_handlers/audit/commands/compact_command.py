"""`sarameya compact TABLE --file-size SIZE`: merges small files of a Parquet table while members land in it."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from functools import partial
from typing import Any

import trio

from sarameya import HandlerError
from sarameya.service import Steps, epilog, steps
from sarameya_handlers.audit.commands import arguments
from sarameya_handlers.audit.commands.results import TableResult, for_each, show_all
from sarameya_handlers.audit.wording import amount
from sarameya_handlers.landing.directory.compaction import Compacted, compact
from sarameya_handlers.spark.parquet.table import ParquetTable
from sarameya_handlers.spark.tables.table import Table

TRIES = 10
"""Attempts, if other processes compact at the same time: one of them succeeds, the others start over."""
_OTHERS = {
    "delta": "OPTIMIZE and VACUUM, in the driver that its members share",
    "iceberg": "CALL <catalog>.system.rewrite_data_files(...) and expire_snapshots",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the command to `parser`."""
    parser.description = (
        "Merge small files of a Parquet table into larger ones. Links do not change, and members may continue to land "
        "meanwhile. Readers of the plain directory miss rows for a moment; read_landing does not. `sarameya sweep` "
        "removes the replaced files."
    )
    parser.epilog = epilog(
        "sarameya compact parquet:landing/orders",
        "sarameya compact landing/orders --file-size 512MB",
        "sarameya compact --app landing.toml",
        exit_codes="0 done, or nothing to do; 1 it failed; 2 the command line must change",
    )
    parser.add_argument(
        "--file-size",
        type=arguments.size,
        default=128 * 2**20,
        metavar="SIZE",
        help="wanted size of a file (default: 128MB); smaller files of a directory are merged",
    )
    arguments.add_arguments(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Compact the tables. Return the exit code.

    Raises:
        SarameyaError: A table cannot be compacted.
    """
    return show_all(trio.run(_compact_all, args, arguments.tables_of(args)), args)


async def _compact_all(args: argparse.Namespace, tables: Sequence[Table]) -> list[TableResult]:
    async def work(table: Table) -> TableResult:
        if isinstance(table, ParquetTable):
            done = await _compact(table, args.file_size, progress)
            return TableResult(_text(table.name, done), _document(table.name, done), done.was_first)
        commands = _OTHERS[table.name.partition(":")[0]]
        reason = f"is not a Parquet table: use its format's own commands, which keep the chains: {commands}"
        if args.table is not None:
            raise HandlerError(f"{table.name} {reason}")
        return TableResult(f"{table.name} {reason}", {"table": table.name, "skipped": reason})

    with steps(quiet=args.quiet) as progress:
        return await for_each(args, tables, work)


async def _compact(table: ParquetTable, file_bytes: int, progress: Steps) -> Compacted:
    total: int | None = None
    progress(f"{table.name}: looking for small files")

    def written(rows: int, of: int) -> None:
        nonlocal total
        if total != of:
            total = of
            progress("merging them, by rows", of)
        progress.update(rows)

    work = partial(compact, table.store, file_bytes, check=trio.from_thread.check_cancelled, written=written)
    for _ in range(TRIES):
        done = await trio.to_thread.run_sync(work)
        if done.was_first:
            break
    return done


def _text(name: str, done: Compacted) -> str:
    if not done.was_first:
        return f"{name}: another process keeps compacting it; try again later"
    refused = "".join(
        f"\n{amount(number, 'small file')} left as they are, to keep every value: {reason}"
        for reason, number in sorted(done.refused.items())
    )
    if done.compaction is None:
        return f"{name}: there are no small files to merge{refused}"
    rows = sum(file.rows for file in done.compaction.files)
    return (
        f"{name}: {amount(len(done.compaction.replaced), 'file')} became {len(done.compaction.files):,}, "
        f"with {amount(rows, 'row')}{refused}"
    )


def _document(name: str, done: Compacted) -> dict[str, Any]:
    compaction = done.compaction
    return {
        "table": name,
        "compaction": compaction.number if compaction else None,
        "replaced": len(compaction.replaced) if compaction else 0,
        "files": len(compaction.files) if compaction else 0,
        "rows": sum(file.rows for file in compaction.files) if compaction else 0,
        "refused": [{"reason": reason, "files": number} for reason, number in sorted(done.refused.items())],
    }
