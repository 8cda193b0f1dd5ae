"""The set of paused partitions, without trio."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sarameya import Event, TopicPartition
from sarameya.group.delivery.pauses import Paused, Pauses
from sarameya.observe import PartitionsPaused, PartitionsResumed

A, B, C = (TopicPartition("orders", number) for number in range(3))


class Claim:
    """A fake claim that records each `_set_paused`. Two equal values in a row would be a mistake."""

    def __init__(self, partition: TopicPartition) -> None:
        self.topic_partition = partition
        self.states: list[bool] = []

    def _set_paused(self, paused: bool) -> None:
        self.states.append(paused)


def pauses() -> tuple[Pauses, list[Event]]:
    events: list[Event] = []
    return Pauses("g", events.append), events


def test_pause_adds_partitions_and_resume_removes_them() -> None:
    paused, _ = pauses()
    paused.pause([A, B])
    paused.resume([B, C])
    assert [tp in paused.now for tp in (A, B, C)] == [True, False, False]
    paused.resume([A])
    assert not paused.now


def test_pause_of_one_partition_reads_no_other_claim() -> None:
    class CountingClaim(Claim):
        count = 0

        @property
        def topic_partition(self) -> TopicPartition:
            CountingClaim.count += 1
            return self._partition

        @topic_partition.setter
        def topic_partition(self, partition: TopicPartition) -> None:
            self._partition = partition

    paused, _ = pauses()
    claims = [CountingClaim(TopicPartition("orders", number)) for number in range(100)]
    for claim in claims:
        paused.watch(claim)
    CountingClaim.count = 0
    paused.pause([claims[7]._partition])
    assert claims[7].states == [False, True]
    assert CountingClaim.count == 0


def test_pause_all_covers_later_partitions_except_resumed() -> None:
    paused, _ = pauses()
    paused.pause([A])
    paused.pause_all()
    paused.resume([B])
    assert [tp in paused.now for tp in (A, B, C)] == [True, False, True]
    paused.pause([B])
    assert paused.now == Paused(everything=True)
    paused.resume([B])
    paused.pause_all()
    assert B in paused.now, "paused again, without exceptions"


def test_resume_all_forgets_names_and_exceptions() -> None:
    paused, _ = pauses()
    paused.pause_all()
    paused.resume([A])
    paused.resume_all()
    assert not any(tp in paused.now for tp in (A, B, C))


def test_only_changes_are_reported() -> None:
    paused, events = pauses()
    paused.resume([A])
    paused.resume_all()
    assert events == []
    paused.pause([B, A])
    paused.pause([A, C])
    paused.pause_all()
    paused.pause_all()
    paused.pause([A])
    paused.resume([C])
    paused.resume_all()
    assert events == [
        PartitionsPaused("g", (A, B), everything=False),
        PartitionsPaused("g", (C,), everything=False),
        PartitionsPaused("g", (), everything=True),
        PartitionsResumed("g", (C,), everything=False),
        PartitionsResumed("g", (), everything=True),
    ]


def test_watched_claim_is_notified_until_it_is_unwatched() -> None:
    paused, _ = pauses()
    paused.pause([A])
    one, two = Claim(A), Claim(B)
    paused.watch(one)
    paused.watch(two)
    paused.pause_all()
    paused.unwatch(one)
    paused.resume_all()
    assert (one.states, two.states) == ([True], [False, True, False])


@pytest.mark.parametrize("wrong", [A, ["orders-0"], ["or"], [("orders", "0")], [3]])
def test_invalid_partition_is_refused_before_any_change(wrong: object) -> None:
    paused, events = pauses()
    with pytest.raises(TypeError, match="TopicPartition"):
        paused.pause(wrong)  # type: ignore[arg-type]
    assert not paused.now
    assert events == []


@given(
    st.lists(
        st.one_of(
            st.tuples(st.sampled_from(["pause", "resume"]), st.sets(st.sampled_from([A, B, C]))),
            st.sampled_from(["pause_all", "resume_all"]),
        )
    )
)
def test_last_call_that_covers_a_partition_decides_its_state(calls: list[object]) -> None:
    paused, _ = pauses()
    claims = {tp: Claim(tp) for tp in (A, B, C)}
    for claim in claims.values():
        paused.watch(claim)
    expected = dict.fromkeys((A, B, C), False)
    for call in calls:
        if isinstance(call, tuple):
            getattr(paused, call[0])(call[1])
            expected |= dict.fromkeys(call[1], call[0] == "pause")
        else:
            getattr(paused, str(call))()
            expected = dict.fromkeys(expected, call == "pause_all")
        assert {tp: tp in paused.now for tp in expected} == expected
        assert {tp: claim.states[-1] for tp, claim in claims.items()} == expected
    for claim in claims.values():
        assert all(before != after for before, after in zip(claim.states, claim.states[1:], strict=False))
