"""Tables as lines for a terminal. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from bench.common.charts import chart
from bench.common.showing import Grid, check_text, figures_grid, ratios_grid
from bench.common.tables import Document, Table

_NAME_WIDTH = 44
"""Least width of the first column."""
_GAP = 3


def heading(document: Document) -> Iterator[str]:
    yield f"{document.bench}: {document.about}; medians (least, most)"
    yield str(document.machine)


def table_lines(table: Table) -> Iterator[str]:
    yield from grid_lines(figures_grid(table))
    yield from table.notes
    yield f"load {table.load:.1f}"
    if table.ratios:
        yield from grid_lines(ratios_grid(table))
    yield from (check_text(check, table) for check in table.checks)
    for series in table.series:
        yield from ("", *chart(series))


def versions(document: Document) -> Iterator[str]:
    if document.versions:
        yield "versions"
    yield from (f"{name:{_NAME_WIDTH}}{version}" for name, version in document.versions.items())


def grid_lines(grid: Grid) -> Iterator[str]:
    """Yield the lines of a grid: names to the left, cells to the right, columns as wide as their widest cell."""
    title, *header = grid.header
    whole = [header, *(cells for _, cells in grid.rows if not isinstance(cells, str))]
    widths = [max(map(len, column)) + _GAP for column in zip(*whole, strict=True)]
    left = max(_NAME_WIDTH, *(len(name) for name, _ in grid.rows), len(title))
    for name, cells in ((title, header), *grid.rows):
        if isinstance(cells, str):
            yield f"{name:{left}}{' ' * _GAP}{cells}"
        else:
            yield f"{name:{left}}" + "".join(f"{cell:>{width}}" for cell, width in zip(cells, widths, strict=True))
