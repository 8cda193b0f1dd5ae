"""Text charts of a series."""

from __future__ import annotations

import attrs

from bench.common.charts import chart
from bench.common.lines import table_lines
from bench.common.markdown import section
from bench.common.tables import Series
from tests.bench.common.kit import document, result, table


def test_chart_shows_highest_values_and_events() -> None:
    series = Series("lag, s", [0, 1, 2, 3, 4, 5, 6, 7, 8], [0, 1, 2, 1, 20, 3, 10, 0, 0], [(2, "one joins"), (3, "x")])

    assert list(chart(series, width=4, height=4)) == [
        "lag, s; a column is 2 s and shows its highest value",
        "      20 |  #",
        "         |  #",
        "      10 |  ##",
        "         |####",
        "       0 +----",
        "           ^ 2.0 s: one joins",
        "           ^ 3.0 s: x",
    ]


def test_event_labels_share_a_line_if_they_fit() -> None:
    series = Series("lag, s", [0, 100], [1, 1], [(80, "c"), (0, "a"), (5, "b")])

    assert list(chart(series, width=50, height=1))[-2:] == [
        "          ^ 0.0 s: a                              ^ 80 s: c",
        "            ^ 5.0 s: b",
    ]


def test_chart_of_empty_series_is_empty() -> None:
    assert list(chart(Series("lag, s", [], []), width=3, height=2)) == [
        "lag, s; a column is 0 s and shows its highest value",
        "     0.0 |",
        "     0.0 |",
        "       0 +---",
    ]


def test_terminal_and_page_contain_the_chart_of_a_series() -> None:
    drawn = attrs.evolve(table(result("ours", 1.0)), series=[Series("lag, s", [0, 1], [1, 2])])
    lines = list(chart(drawn.series[0]))

    assert list(table_lines(drawn))[-len(lines) :] == lines
    assert "\n".join(["```", *lines, "```"]) in "\n".join(section(document(drawn)))
