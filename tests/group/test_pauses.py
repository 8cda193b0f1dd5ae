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
    """Remembers what it is told; a second `True` in a row would be one too many."""

    def __init__(self, partition: TopicPartition) -> None:
        self.topic_partition = partition
        self.told: list[bool] = []

    def _set_paused(self, paused: bool) -> None:
        self.told.append(paused)


def pauses() -> tuple[Pauses, list[Event]]:
    events: list[Event] = []
    return Pauses("g", events.append), events


def test_pause_names_partitions_and_resume_takes_them_out() -> None:
    paused, _ = pauses()
    paused.pause([A, B])
    paused.resume([B, C])
    assert [tp in paused.now for tp in (A, B, C)] == [True, False, False]
    paused.resume([A])
    assert not paused.now


def test_pause_of_one_of_many_looks_at_that_one_only() -> None:
    class Asked(Claim):
        count = 0

        @property
        def topic_partition(self) -> TopicPartition:
            Asked.count += 1
            return self._partition

        @topic_partition.setter
        def topic_partition(self, partition: TopicPartition) -> None:
            self._partition = partition

    paused, _ = pauses()
    claims = [Asked(TopicPartition("orders", number)) for number in range(100)]
    for claim in claims:
        paused.watch(claim)
    Asked.count = 0
    paused.pause([claims[7]._partition])
    assert claims[7].told == [False, True]
    assert Asked.count == 0


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


def test_only_what_changes_is_told() -> None:
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


def test_watcher_is_told_at_once_and_until_it_is_taken_out() -> None:
    paused, _ = pauses()
    paused.pause([A])
    one, two = Claim(A), Claim(B)
    paused.watch(one)
    paused.watch(two)
    paused.pause_all()
    paused.unwatch(one)
    paused.resume_all()
    assert (one.told, two.told) == ([True], [False, True, False])


@pytest.mark.parametrize("wrong", [A, ["orders-0"], ["or"], [("orders", "0")], [3]])
def test_what_is_no_partition_is_refused_before_anything_changes(wrong: object) -> None:
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
def test_partition_is_as_the_last_call_that_covers_it_says(calls: list[object]) -> None:
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
        assert {tp: claim.told[-1] for tp, claim in claims.items()} == expected
    for claim in claims.values():
        assert all(before != after for before, after in zip(claim.told, claim.told[1:], strict=False))
