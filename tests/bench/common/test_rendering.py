"""Tables as text, for a terminal and for a Markdown page."""

from __future__ import annotations

from bench.common.lines import table_lines
from bench.common.markdown import section
from bench.common.tables import Column, Goal, Table
from tests.bench.common.kit import document, result, table

OURS = result("ours", 1_234_500.0, 2_000_000.0, 2_000_000.0, is_ours=True)
THEIRS = result("theirs", 1e6, 1e6, 1e6)


def lines_of(made: Table) -> list[str]:
    return [" ".join(line.split()) for line in table_lines(made)]


def test_terminal_has_medians_spreads_notes_load_and_ratios() -> None:
    assert lines_of(table(OURS, THEIRS, goal=Goal(2.2))) == [
        "200 B 1000 messages/s seconds",
        "ours 2,000 (1,234, 2,000) 0.50 (0.50, 0.81)",
        "theirs 1,000 1.00",
        "210 bytes a message",
        "load 1.2",
        "ours / theirs (above 1: ours is faster) 1000 messages/s",
        "ours / theirs 2.00 (1.23, 2.00), ≥ 2.2 missed",
    ]


def test_terminal_columns_are_aligned() -> None:
    header, ours, theirs, *_ = table_lines(table(OURS, THEIRS))

    assert len(header) == len(ours) == len(theirs)


def test_repeated_failure_is_shown_once_with_its_count() -> None:
    failed = result("theirs", 1.0, failures=("exited with 1", "exited with 1"))

    assert "theirs FAILED in 2 of 3: exited with 1" in lines_of(table(OURS, failed))


def test_narrowly_missed_goal_shows_more_digits() -> None:
    made = table(result("ours", 696.0, is_ours=True), result("theirs", 1_000.0), goal=Goal(0.7))

    assert lines_of(made)[-1] == "ours / theirs 0.696, ≥ 0.7 missed"


def test_ratio_above_100_has_no_decimals() -> None:
    assert lines_of(table(result("ours", 123_456.0, is_ours=True), result("theirs", 1_000.0)))[-1].endswith(" 123")


def test_check_is_shown_in_the_unit_of_its_column() -> None:
    assert lines_of(table(OURS, bound=Goal(0.6, at_most=True)))[-1] == "ours: seconds 0.50, goal ≤ 0.60 reached"


def test_column_scales_and_rounds_its_numbers() -> None:
    assert Column("bytes", "MB", scale=1e-6, digits=1).show(12_345_678_900) == "12,345.7"


def test_page_has_the_same_in_markdown() -> None:
    assert list(section(document(table(OURS, THEIRS, goal=Goal(2.2), bound=Goal(0.6, at_most=True))))) == [
        "One broker, 3 round(s); medians (least, most). 2026-01-31 12:00, 2 processors, 24 GiB, Linux 6, Python 3.11.7,"
        " commit abc1234.",
        "It took 65 s.",
        "",
        "| 200 B | 1000 messages/s | seconds |",
        "| --- | ---: | ---: |",
        "| ours | 2,000 (1,234, 2,000) | 0.50 (0.50, 0.81) |",
        "| theirs | 1,000 | 1.00 |",
        "",
        "210 bytes a message; load 1.2",
        "",
        "| ours / theirs (above 1: ours is faster) | 1000 messages/s |",
        "| --- | ---: |",
        "| ours / theirs | 2.00 (1.23, 2.00), ≥ 2.2 missed |",
        "",
        "- ours: seconds 0.50, goal ≤ 0.60 reached",
        "",
        "Versions: ours, theirs 1.2.3.",
    ]


def test_page_escapes_a_bar_in_a_cell() -> None:
    failed = result("theirs", failures=("partitions 0 1 | 2 3",))

    assert r"| theirs | FAILED in 1 of 1: partitions 0 1 \| 2 3 |" in list(section(document(table(failed))))
