"""Results of a command for one table, or for all tables of an app file."""

from __future__ import annotations

import argparse
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import attrs

from sarameya import SarameyaError
from sarameya.service import printable, show
from sarameya_handlers.spark.tables.table import Table


@attrs.frozen(slots=True)
class TableResult:
    """Result for one table: the text for a person, and the JSON document."""

    text: str
    document: dict[str, Any]
    is_good: bool = True


async def for_each(
    args: argparse.Namespace, tables: Sequence[Table], work: Callable[[Table], Awaitable[TableResult]]
) -> list[TableResult]:
    """Return the result for each table. If an app file names them, a failed table does not stop the others.

    Raises:
        SarameyaError: The only table has failed.
    """
    results = []
    for table in tables:
        try:
            results.append(await work(table))
        except SarameyaError as error:
            if args.table is not None:  # the only one, named on the command line
                raise
            name, document = printable(table.name), {"table": table.name, "error": str(error)}
            results.append(TableResult(f"TABLE {name}\n\nerror: {error}", document, is_good=False))
    return results


def show_all(results: Sequence[TableResult], args: argparse.Namespace) -> int:
    """Print the results, as `{"tables": [...]}` if an app file has named the tables. Return the exit code."""
    documents = [result.document for result in results]
    document: dict[str, Any] = {"tables": documents} if args.table is None else documents[0]
    show("\n\n".join(result.text for result in results), document, as_json=args.json)
    return 0 if all(result.is_good for result in results) else 1
