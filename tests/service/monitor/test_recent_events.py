"""Recent events, kept for the status page."""

from __future__ import annotations

from sarameya import Landed, LandingFailed
from sarameya.observe import ConnectionLost, Event, HandlerOverdue, MembershipChanged, Retrying
from sarameya.service.monitor.recent_events import KEPT, ErrorTree, EventRecorder, RecentBatch, tree_of
from tests.service.monitor.kit import ORDERS_0


def landed(offset: int) -> Event:
    return Landed(partition=ORDERS_0, from_offset=offset, to_offset=offset + 1, rows=1, size_bytes=2, seconds=0.5)


def test_many_batches_displace_no_event() -> None:
    recent = EventRecorder(lambda: 7.0)
    recent(MembershipChanged("g", "STABLE", "REVOKING", "the group rebalances"))
    for offset in range(3 * KEPT):
        recent(landed(offset))
    first, *landings = recent
    assert (first.number, first.at, first.text) == (1, 7.0, "membership: stable to revoking: the group rebalances")
    assert len(landings) == KEPT
    last = landings[-1].landing
    assert last == RecentBatch(
        topic="orders", partition=0, from_offset=299, to_offset=300, rows=1, size_bytes=2, seconds=0.5
    )


def test_repeated_retries_are_one_event() -> None:
    recent = EventRecorder()
    recent(MembershipChanged("g", "STABLE", "REVOKING", "the group rebalances"))
    for attempt in range(1, 3 * KEPT):
        for what in ("metadata", "find_coordinator"):
            recent(Retrying(what, attempt, 1.0, 2.0, "no broker is there", kind="metadata"))
    first, *tries = recent
    assert first.kind == "MembershipChanged"
    assert [f"attempt={3 * KEPT - 1} " in one.text for one in tries] == [True, True]
    recent(Retrying("metadata", 1, 0.0, 1.0, "no broker is there", kind="metadata"))
    *before, again = recent
    assert before == [first, *tries], "the first attempt of a new series is a new event"
    assert "attempt=1 " in again.text


def test_failed_batch_is_an_event_with_its_cause() -> None:
    recent = EventRecorder()
    recent(LandingFailed(partition=ORDERS_0, from_offset=3, to_offset=5, cause="no room"))
    (one,) = recent
    assert (one.kind, one.level, one.text) == ("LandingFailed", "warning", "no room")
    assert one.landing == RecentBatch(topic="orders", partition=0, from_offset=3, to_offset=5)


def test_level_of_an_event_is_that_of_the_log() -> None:
    recent = EventRecorder()
    recent(ConnectionLost(1, "localhost:9092", "closed"))
    assert [one.level for one in recent] == ["warning"]


def test_secrets_in_foreign_texts_are_masked() -> None:
    cause = OSError("Authorization: Bearer sesame")
    cause.add_note("asked with token=sesame")
    error = ValueError("https://me:sesame@registry/")
    error.__cause__ = cause
    recent = EventRecorder()
    recent(LandingFailed(partition=ORDERS_0, from_offset=3, to_offset=5, cause="no room; AccountKey=sesame"))
    recent(ConnectionLost(1, "localhost:9092", "password=sesame"))
    recent.record_failure(error)
    assert "sesame" not in repr([*recent])
    assert [one.text for one in recent][-1] == "ValueError: https://me:***@registry/"


def test_error_is_a_tree_of_groups_and_causes_without_nurseries() -> None:
    cause = OSError("disk")
    cause.add_note("at 3 o'clock")
    outer = ValueError("no\nmore lines")
    outer.__cause__ = ExceptionGroup("nursery", [cause])
    group = ExceptionGroup("both", [outer, ExceptionGroup("nursery", [KeyError("k")])])
    assert tree_of(group) == ErrorTree(
        text="ExceptionGroup: both (2 sub-exceptions)",
        inner=(
            ErrorTree(text="ValueError: no", inner=(ErrorTree(text="OSError: disk; at 3 o'clock"),)),
            ErrorTree(text="KeyError: 'k'"),
        ),
    )


class Mute(Exception):
    """An exception without text, like pyspark's after its JVM has died."""

    def __str__(self) -> str:
        raise ConnectionError("no JVM")


def test_mute_and_cyclic_errors_are_trees() -> None:
    mute = Mute()
    assert tree_of(mute) == ErrorTree(text="Mute")
    first, second = ValueError("a"), ValueError("b")
    first.__cause__, second.__cause__ = second, first
    depth, tree = 0, tree_of(first)
    while tree.inner:
        depth, (tree,) = depth + 1, tree.inner
    assert depth == 8


def size(tree: ErrorTree) -> int:
    return 1 + sum(map(size, tree.inner))


def test_error_trees_are_bounded_and_count_the_rest() -> None:
    recent = EventRecorder()
    recent.record_failure(ExceptionGroup("many", [ValueError("x" * 10_000) for _ in range(100)]))
    (one,) = recent
    assert one.tree is not None
    assert len(one.tree.inner) == 16 + 1
    assert len(one.tree.inner[0].text) < 2100
    assert one.tree.inner[-1] == ErrorTree(text="and 84 more")


def test_cut_tree_keeps_its_top_level() -> None:
    inner = [ExceptionGroup(f"group {n}", [ValueError(f"{n}.{m}") for m in range(9)]) for n in range(10)]
    tree = tree_of(ExceptionGroup("all", inner))
    *groups, last = tree.inner
    assert [one.text for one in groups] == [f"ExceptionGroup: group {n} (9 sub-exceptions)" for n in range(10)]
    assert (size(tree), last.text) == (50 + 1, "and 51 more")


def test_tree_of_a_recursive_error_is_bounded() -> None:
    errors = [ValueError(str(n)) for n in range(10)]
    for one in errors:
        one.__cause__ = ExceptionGroup("all", errors)
    assert size(tree_of(errors[0])) == 50


def test_stack_of_an_overdue_handler_is_not_in_its_line() -> None:
    recent = EventRecorder()
    recent(HandlerOverdue(ORDERS_0, 3001, 3500, 66.0, "x" * 5000 + "\n  the innermost frame\n"))
    (one,) = recent
    assert (one.level, one.text) == ("warning", "handler has held orders-0 offsets 3001 to 3500 for 66 s")
    assert one.stack.endswith("the innermost frame\n")
    assert len(one.stack) == 4000
