"""Rounds in which contenders run one after another."""

from __future__ import annotations

from bench.common.tables import Column
from bench.members.clients import Contender
from bench.members.rounds import MemberOutcome, leaves, run_rounds
from bench.members.running import MemberError

OURS, THEIRS = Contender("ours", "sarameya"), Contender("theirs", "sarama")
RATE = Column("rate", "messages/s")


def test_contenders_run_in_turn_in_each_round() -> None:
    order: list[tuple[str, int]] = []

    async def run(contender: Contender, number: int) -> MemberOutcome:
        order.append((contender.name, number))
        return MemberOutcome([{"rate": number}], "1.2.3")

    ours, theirs = run_rounds("bench", [OURS, THEIRS], 2, run, RATE)
    assert order == [("ours", 0), ("theirs", 0), ("ours", 1), ("theirs", 1)]
    assert (ours.numbers("rate"), ours.version, ours.is_ours) == ([0.0, 1.0], "1.2.3", True)
    assert not theirs.is_ours


def test_failed_contender_has_its_reason_and_others_continue() -> None:
    async def run(contender: Contender, number: int) -> MemberOutcome:
        if contender is OURS and number == 1:
            raise ExceptionGroup("nursery", [MemberError("ended with 1")])
        return MemberOutcome([{"rate": 1.0}], "1.2.3")

    ours, theirs = run_rounds("bench", [OURS, THEIRS], 3, run, RATE)
    assert (ours.counts, ours.failures, len(ours.runs)) == (False, ["ended with 1"], 2)
    assert theirs.counts


def test_contender_whose_process_has_ended_has_failed() -> None:
    async def run(contender: Contender, number: int) -> MemberOutcome:
        raise ProcessLookupError("No such process")

    [ours] = run_rounds("bench", [OURS], 1, run, RATE)
    assert ours.failures == ["No such process"]


def test_run_may_return_several_measurements() -> None:
    async def run(contender: Contender, number: int) -> MemberOutcome:
        return MemberOutcome([{"rate": 1.0}, {"rate": 2.0}], "1.2.3")

    [ours] = run_rounds("bench", [OURS], 1, run, RATE)
    assert ours.numbers("rate") == [1.0, 2.0]


def test_leaves_of_a_group_are_its_errors() -> None:
    one, two = ValueError("one"), ValueError("two")

    assert leaves(ExceptionGroup("outer", [ExceptionGroup("inner", [one]), two])) == [one, two]
