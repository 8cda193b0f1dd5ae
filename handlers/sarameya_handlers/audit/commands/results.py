"""Results of a command for one table, or for all tables of an app file."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from sarameya.service import show


def show_each(texts: Sequence[str], documents: Sequence[dict[str, Any]], args: argparse.Namespace) -> None:
    """Print the result for each table.

    The JSON document is that of the table, or `{"tables": [...]}` if an app file has named them.
    """
    document: dict[str, Any] = {"tables": documents} if args.table is None else documents[0]
    show("\n\n".join(texts), document, as_json=args.json)
