"""The diagrams in ARCHITECTURE.md: they are drawn from the state tables in the code, and up to date."""

from __future__ import annotations

from enum import Enum, auto

import pytest

from tools.diagrams import COMMAND, MACHINES, PAGE, Table, draw, redrawn


class S(Enum):
    ONE = auto()
    TWO = auto()
    THREE = auto()
    FOUR = auto()
    FIVE = auto()
    SIX = auto()


class I(Enum):  # noqa: E742 - an input
    STEP = auto()
    JUMP = auto()
    KNOCK = auto()
    STOP = auto()


SMALL: Table = {S.ONE: {I.STEP: S.TWO, I.JUMP: S.TWO, I.KNOCK: S.ONE}, S.TWO: {I.STEP: S.ONE}}


def arrows(table: Table) -> list[str]:
    return [line.strip() for line in draw(table).splitlines() if "-->" in line]


def test_page_shows_the_current_state_tables() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert redrawn(page) == page, f"{PAGE.name} shows a state table that the code no longer has; run: {COMMAND}"


@pytest.mark.parametrize("name", MACHINES)
def test_diagram_has_all_transitions_of_a_machine(name: str) -> None:
    drawn = draw(MACHINES[name])
    assert all(state.name in drawn and by.name in drawn for state, row in MACHINES[name].items() for by in row)


def test_inputs_with_one_source_and_one_target_share_an_arrow() -> None:
    assert arrows(SMALL) == ["[*] --> ONE", "ONE --> TWO : STEP, JUMP", "TWO --> ONE : STEP"]


def test_inputs_without_effect_are_listed_below_the_diagram() -> None:
    assert draw(SMALL).endswith("```\n\nInputs without effect: ONE on KNOCK. All other inputs are impossible.\n")


def test_table_without_inputs_without_effect_has_only_arrows() -> None:
    assert draw({S.ONE: {I.STEP: S.TWO}, S.TWO: {}}).endswith("```\n\nAll other inputs are impossible.\n")


def test_input_of_nearly_all_states_is_one_arrow() -> None:
    table: Table = {state: {I.STOP: S.SIX} for state in S if state is not S.FIVE} | {S.FIVE: {I.STEP: S.ONE}}
    assert [line.strip() for line in draw(table).splitlines()[2:-3]] == [
        "[*] --> ONE",
        "FIVE --> ONE : STEP",
        'state "any other but FIVE" as any0',
        "any0 --> SIX : STOP",
    ]


def test_input_of_a_few_states_keeps_its_arrows() -> None:
    table: Table = {state: {I.STOP: S.SIX} for state in (S.ONE, S.TWO, S.THREE)} | {S.SIX: {}}
    assert [arrow for arrow in arrows(table) if "SIX" in arrow] == [
        "ONE --> SIX : STOP",
        "TWO --> SIX : STOP",
        "THREE --> SIX : STOP",
    ]


def test_block_is_redrawn_and_the_text_around_it_kept() -> None:
    page = "before\n<!-- generated: small -->\nold\n<!-- end -->\nafter\n"
    assert redrawn(page, {"small": SMALL}) == f"before\n<!-- generated: small -->\n{draw(SMALL)}<!-- end -->\nafter\n"


@pytest.mark.parametrize("page", ["no block\n", "<!-- generated: other -->\n<!-- end -->\n"])
def test_machine_without_a_block_in_the_page_is_refused(page: str) -> None:
    with pytest.raises(ValueError, match="small"):
        redrawn(page, {"small": SMALL})
