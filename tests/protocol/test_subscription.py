"""Subscriptions against the cluster's metadata: topics, added partitions, changes that need a new assignment."""

from __future__ import annotations

import re

import attrs
import pytest

from sarameya.error_codes import ErrorCode
from sarameya.errors import ConfigError
from sarameya.model import TopicPartition
from sarameya.protocol.cluster.metadata import ClusterMetadata, PartitionMetadata, TopicMetadata
from sarameya.protocol.subscription import Growth, TopicWatch, checked, resolve, wants

UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def cluster(counts: dict[str, int] | None = None, errors: dict[str, ErrorCode] | None = None) -> ClusterMetadata:
    """Make a response: topics with partition counts, and topics with an error instead."""
    topics = {
        name: TopicMetadata(name, ErrorCode.NONE, {number: PartitionMetadata(leader=0) for number in range(count)})
        for name, count in (counts or {}).items()
    }
    topics |= {name: TopicMetadata(name, code) for name, code in (errors or {}).items()}
    return ClusterMetadata({}, topics)


def all_topics(counts: dict[str, int] | None = None) -> ClusterMetadata:
    """Return a response to a request for all topics."""
    return attrs.evolve(cluster(counts), has_all_topics=True)


def watching(**assigned: int) -> TopicWatch:
    watch = TopicWatch()
    watch.assigned_from(assigned)
    return watch


# -- subscribed topics --------------------------------------------------------------------------------


def test_topics_by_name_need_not_exist() -> None:
    assert resolve(("a", "b"), cluster({"a": 1, "c": 1})) == ("a", "b")


def test_pattern_matches_whole_names_of_existing_topics() -> None:
    metadata = cluster({"orders-b": 1, "orders-a": 2, "all-orders-a": 1}, {"orders-c": UNKNOWN})
    assert resolve(re.compile("orders-."), metadata) == ("orders-a", "orders-b")


def test_pattern_leaves_out_internal_topics() -> None:
    internal = TopicMetadata("__consumer_offsets", ErrorCode.NONE, {0: PartitionMetadata(leader=0)}, is_internal=True)
    assert resolve(re.compile(".*"), ClusterMetadata({}, {internal.name: internal})) == ()


def test_topic_is_wanted_by_its_whole_name() -> None:
    assert wants(("a",), "a")
    assert not wants(("a",), "aa")
    assert wants(re.compile("a+"), "aa")
    assert not wants(re.compile("a"), "aa")


def test_names_are_sorted_without_duplicates() -> None:
    assert checked(["b", "a", "b"], None) == ("a", "b")


@pytest.mark.parametrize("topics", [None, [], "orders", b"orders", [""], ["a", None]])
def test_invalid_topic_names_are_refused(topics: object) -> None:
    with pytest.raises(ConfigError, match="non-empty list of topic names"):
        checked(topics, None)  # type: ignore[arg-type]


def test_name_that_is_not_utf_8_is_refused() -> None:
    with pytest.raises(ConfigError, match="not UTF-8"):
        checked(["orders", "caf\udce9"], None)


@pytest.mark.parametrize("pattern", ["orders", re.compile(b"orders")])
def test_invalid_pattern_is_refused(pattern: object) -> None:
    with pytest.raises(ConfigError, match="compiled pattern"):
        checked(None, pattern)  # type: ignore[arg-type]


def test_names_together_with_a_pattern_are_refused() -> None:
    with pytest.raises(ConfigError, match="give only one of them"):
        checked(["a"], re.compile("a"))


# -- changes that need a new assignment ---------------------------------------------------------------


def test_topics_as_assigned_are_no_change() -> None:
    watch = watching(a=2, b=1)
    assert watch.changes(cluster({"a": 2, "b": 1, "other": 5})) == {}
    assert not watch.has_doubts


def test_added_partitions_are_a_change_at_once() -> None:
    assert watching(a=2, b=1).changes(cluster({"a": 3, "b": 1})) == {"a": 3}


def test_missing_topic_is_a_change_when_it_appears() -> None:
    watch = watching(a=2, late=0)
    for _ in range(10):
        assert watch.changes(cluster({"a": 2}, {"late": UNKNOWN})) == {}
    assert not watch.has_doubts, "it was missing when the partitions were assigned, and still is"
    assert watch.changes(cluster({"a": 2, "late": 4})) == {"late": 4}


MISSING = pytest.mark.parametrize(
    "missing", [{"errors": {"b": UNKNOWN}}, {}], ids=["error for its name", "missing among all topics"]
)


@MISSING
def test_topic_counts_as_deleted_after_five_look_ups(
    missing: dict[str, dict[str, ErrorCode]],
) -> None:
    watch = watching(a=2, b=1)
    for _ in range(4):
        assert watch.changes(cluster({"a": 2}, **missing)) == {}
        assert watch.has_doubts
    assert watch.changes(cluster({"a": 2}, **missing)) == {"b": 0}
    assert not watch.has_doubts, "the deletion is accepted"


@MISSING
def test_topic_seen_meanwhile_restarts_the_look_ups(missing: dict[str, dict[str, ErrorCode]]) -> None:
    watch = watching(a=2, b=1)
    for _ in range(3):
        for _ in range(4):
            assert watch.changes(cluster({"a": 2}, **missing)) == {}
        assert watch.changes(cluster({"a": 2, "b": 1})) == {}
        assert not watch.has_doubts


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.UNKNOWN_SERVER_ERROR,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.NONE,  # without partitions, as of a topic that is being created
    ],
)
def test_topic_with_another_error_never_counts_as_deleted(code: ErrorCode) -> None:
    watch = watching(a=2, b=1)
    for _ in range(20):
        assert watch.changes(cluster({"a": 2}, {"b": code})) == {}
        assert not watch.has_doubts


def test_same_response_counts_as_one_look_up() -> None:
    watch, once = watching(b=1), cluster()
    for _ in range(20):
        assert watch.changes(once) == {}
    assert watch.has_doubts


def test_look_ups_are_counted_for_each_topic() -> None:
    watch = watching(a=1, b=1)
    for _ in range(2):
        watch.changes(cluster({"b": 1}))
    for _ in range(2):
        assert watch.changes(cluster()) == {}
    assert watch.changes(cluster()) == {"a": 0}
    assert watch.has_doubts, "about b, which was missing three times"


def test_new_assignment_replaces_the_watched_topics() -> None:
    watch, last = watching(a=2, b=1), cluster({"a": 2})
    for _ in range(3):
        watch.changes(cluster({"a": 2}))
    watch.changes(last)
    watch.assigned_from({"b": 1})
    assert not watch.has_doubts
    assert watch.changes(last) == {}, "the first look-up, by an earlier response"
    assert watch.has_doubts
    watch.assigned_from({})
    assert watch.changes(cluster()) == {}
    assert not watch.has_doubts


# -- added partitions ---------------------------------------------------------------------------------


def is_new(growth: Growth, topic: str, count: int) -> list[bool]:
    return [growth.is_new(TopicPartition(topic, number)) for number in range(count)]


def test_partitions_beyond_those_first_seen_are_new() -> None:
    growth = Growth()
    growth.update(cluster({"a": 2}))
    growth.update(cluster({"a": 4}))
    assert is_new(growth, "a", 4) == [False, False, True, True]


def test_topic_never_seen_has_no_new_partitions() -> None:
    growth = Growth()
    assert is_new(growth, "a", 3) == [False] * 3
    growth.update(cluster({}, {"a": UNKNOWN}))
    growth.update(cluster({"a": 2}))
    assert is_new(growth, "a", 3) == [False, False, True], "it may have existed before it was requested"


def test_topic_that_appears_among_all_topics_is_all_new() -> None:
    growth = Growth()
    growth.update(all_topics({"a": 1}))
    growth.update(all_topics({"a": 1, "b": 2}))
    assert is_new(growth, "a", 1) == [False]
    assert is_new(growth, "b", 2) == [True, True]


def test_first_response_with_all_topics_makes_none_new() -> None:
    growth = Growth()
    growth.update(cluster({"a": 1}))
    growth.update(all_topics())  # an empty response proves nothing
    growth.update(all_topics({"a": 1, "b": 2}))
    assert is_new(growth, "b", 2) == [False, False]


def test_topic_not_requested_before_is_not_new() -> None:
    growth = Growth()
    growth.update(all_topics({"a": 1}))
    growth.update(cluster({"b": 2}))
    assert is_new(growth, "b", 2) == [False, False]


def test_forgotten_topic_that_returns_is_all_new() -> None:
    growth = Growth()
    growth.update(cluster({"a": 2}))
    growth.forget(["a", "never seen"])
    growth.update(cluster({"a": 2}))
    assert is_new(growth, "a", 2) == [True, True]
    assert is_new(growth, "never seen", 1) == [False]


def test_partition_reported_by_the_leader_is_new() -> None:
    growth = Growth()
    growth.update(cluster({"a": 3}))
    growth.add([TopicPartition("a", 2)])
    assert is_new(growth, "a", 3) == [False, False, True]
