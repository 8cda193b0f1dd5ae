"""Renders a run of a bench as a section of a Markdown page. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from bench.common.charts import chart
from bench.common.showing import Grid, check_text, figures_grid, ratios_grid
from bench.common.tables import Document, Table


def section(document: Document) -> Iterator[str]:
    """Yield the lines of the section: the measurement and its machine, then each table."""
    yield f"{document.about[0].upper()}{document.about[1:]}; medians (least, most). {document.machine}."
    yield f"It took {document.seconds:.0f} s."
    for table in document.tables:
        yield ""
        yield from _table(table)
    versions: dict[str, list[str]] = {}
    for name, version in document.versions.items():
        versions.setdefault(version, []).append(name)
    if versions:
        text = "; ".join(f"{', '.join(names)} {version}" for version, names in versions.items())
        yield from ("", f"Versions: {text}.")


def grid_rows(grid: Grid) -> Iterator[str]:
    """Yield the rows of one Markdown table."""
    yield _row(grid.header)
    yield _row(["---", *("---:" for _ in grid.header[1:])])
    for name, cells in grid.rows:
        yield _row([name, *([cells] if isinstance(cells, str) else cells)])


def _table(table: Table) -> Iterator[str]:
    yield from grid_rows(figures_grid(table))
    yield ""
    yield "; ".join([*table.notes, f"load {table.load:.1f}"])
    if table.ratios:
        yield ""
        yield from grid_rows(ratios_grid(table))
    if table.checks:
        yield ""
        yield from (f"- {check_text(check, table)}" for check in table.checks)
    for series in table.series:
        yield from ("", "```", *chart(series), "```")


def _row(cells: Iterable[str]) -> str:
    escaped = (cell.replace("|", r"\|") for cell in cells)
    return f"| {' | '.join(escaped)} |"
