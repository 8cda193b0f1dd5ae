"""Draws a series as a chart of plain text. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from bench.common.tables import Series

WIDTH, HEIGHT = 75, 10
_LABEL_WIDTH = 8
"""Characters of the labels to the left of a chart."""


def chart(series: Series, width: int = WIDTH, height: int = HEIGHT) -> Iterator[str]:
    """Yield the lines of a chart: time runs to the right, and a column is as high as its highest value."""
    length = max(series.times, default=0.0)
    columns = _columns(series, length, width)
    top = max(series.values, default=0.0)
    yield f"{series.title}; a column is {length / width:.3g} s and shows its highest value"
    for level in range(height, 0, -1):
        label = _number(top * level / height) if level in (height, (height + 1) // 2) else ""
        bars = "".join("#" if top and value * height > top * (level - 1) else " " for value in columns)
        yield f"{label:>{_LABEL_WIDTH}} |{bars}".rstrip()
    yield f"{'0':>{_LABEL_WIDTH}} +{'-' * width}"
    margin = " " * (_LABEL_WIDTH + 2)
    marked = [(_column(at, length, width), f"^ {_number(at)} s: {text}") for at, text in series.marks]
    yield from (f"{margin}{line}" for line in _side_by_side(marked))


def _columns(series: Series, length: float, width: int) -> list[float]:
    """Return the highest value of each column; 0 if nothing was measured in it."""
    columns = [0.0] * width
    for at, value in zip(series.times, series.values, strict=True):
        column = _column(at, length, width)
        columns[column] = max(columns[column], value)
    return columns


def _column(at: float, length: float, width: int) -> int:
    return min(int(at / length * width), width - 1) if length > 0 else 0


def _side_by_side(marked: Sequence[tuple[int, str]]) -> list[str]:
    """Return lines with each text at its column. A text without room in a line moves to the next line."""
    lines: list[str] = []
    for column, text in sorted(marked):
        for number, line in enumerate(lines):
            if len(line) < column or not line:
                lines[number] = f"{line:{column}}{text}"
                break
        else:
            lines.append(f"{'':{column}}{text}")
    return lines


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 else f"{value:.1f}"
