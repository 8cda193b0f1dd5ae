"""Tables as text: for a terminal, and for a page."""

from __future__ import annotations

from bench.common.lines import table_lines
from bench.common.markdown import section
from bench.common.tables import Column, Goal, Table
from tests.bench.common.kit import document, result, table

OURS = result("ours", 1_234_500.0, 2_000_000.0, 2_000_000.0, is_ours=True)
THEIRS = result("theirs", 1e6, 1e6, 1e6)


def squeezed(made: Table) -> list[str]:
    return [" ".join(line.split()) for line in table_lines(made)]


def test_terminal_has_medians_spreads_notes_load_and_ratios() -> None:
    assert squeezed(table(OURS, THEIRS, goal=Goal(2.2))) == [
        "200 B 1000 messages/s seconds",
        "ours 2,000 (1,234, 2,000) 0.50 (0.50, 0.81)",
        "theirs 1,000 1.00",
        "210 bytes a message",
        "load 1.2",
        "ours / theirs (above 1: ours is faster) 1000 messages/s",
        "ours / theirs 2.00 (1.23, 2.00), ≥ 2.2 missed",
    ]


def test_terminal_columns_end_at_the_same_place() -> None:
    header, ours, theirs, *_ = table_lines(table(OURS, THEIRS))

    assert len(header) == len(ours) == len(theirs)


def test_failure_is_told_once_with_how_often() -> None:
    failed = result("theirs", 1.0, failures=("exited with 1", "exited with 1"))

    assert "theirs FAILED in 2 of 3: exited with 1" in squeezed(table(OURS, failed))


def test_goal_just_missed_does_not_read_as_one_reached() -> None:
    made = table(result("ours", 696.0, is_ours=True), result("theirs", 1_000.0), goal=Goal(0.7))

    assert squeezed(made)[-1] == "ours / theirs 0.696, ≥ 0.7 missed"


def test_ratio_of_hundreds_has_no_point() -> None:
    assert squeezed(table(result("ours", 123_456.0, is_ours=True), result("theirs", 1_000.0)))[-1].endswith(" 123")


def test_check_is_told_in_its_columns_unit() -> None:
    assert squeezed(table(OURS, bound=Goal(0.6, at_most=True)))[-1] == "ours: seconds 0.50, goal ≤ 0.60 reached"


def test_column_shows_what_it_scales() -> None:
    assert Column("bytes", "MB", scale=1e-6, digits=1).show(12_345_678_900) == "12,345.7"


def test_page_has_the_same_as_markdown() -> None:
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


def test_page_keeps_a_bar_in_a_cell() -> None:
    failed = result("theirs", failures=("partitions 0 1 | 2 3",))

    assert r"| theirs | FAILED in 1 of 1: partitions 0 1 \| 2 3 |" in list(section(document(table(failed))))
