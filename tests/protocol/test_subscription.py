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


def everything(counts: dict[str, int] | None = None) -> ClusterMetadata:
    """An answer to who asked about all topics."""
    return attrs.evolve(cluster(counts), has_all_topics=True)


def watching(**dealt: int) -> TopicWatch:
    watch = TopicWatch()
    watch.assigned_from(dealt)
    return watch


# -- which topics -------------------------------------------------------------------------------------


def test_topics_by_name_are_wanted_whether_they_exist_or_not() -> None:
    assert resolve(("a", "b"), cluster({"a": 1, "c": 1})) == ("a", "b")


def test_pattern_matches_whole_names_of_existing_topics() -> None:
    metadata = cluster({"orders-b": 1, "orders-a": 2, "all-orders-a": 1}, {"orders-c": UNKNOWN})
    assert resolve(re.compile("orders-."), metadata) == ("orders-a", "orders-b")


def test_pattern_leaves_out_what_is_kafka_s_own() -> None:
    internal = TopicMetadata("__consumer_offsets", ErrorCode.NONE, {0: PartitionMetadata(leader=0)}, is_internal=True)
    assert resolve(re.compile(".*"), ClusterMetadata({}, {internal.name: internal})) == ()


def test_topic_is_wanted_by_its_name_alone() -> None:
    assert wants(("a",), "a")
    assert not wants(("a",), "aa")
    assert wants(re.compile("a+"), "aa")
    assert not wants(re.compile("a"), "aa")


def test_names_are_taken_once_and_in_order() -> None:
    assert checked(["b", "a", "b"], None) == ("a", "b")


@pytest.mark.parametrize("topics", [None, [], "orders", b"orders", [""], ["a", None]])
def test_what_are_no_names_is_refused(topics: object) -> None:
    with pytest.raises(ConfigError, match="non-empty list of topic names"):
        checked(topics, None)  # type: ignore[arg-type]


def test_name_that_no_request_can_carry_is_refused() -> None:
    with pytest.raises(ConfigError, match="not UTF-8"):
        checked(["orders", "caf\udce9"], None)


@pytest.mark.parametrize("pattern", ["orders", re.compile(b"orders")])
def test_what_is_no_pattern_is_refused(pattern: object) -> None:
    with pytest.raises(ConfigError, match="compiled pattern"):
        checked(None, pattern)  # type: ignore[arg-type]


def test_names_beside_a_pattern_are_refused() -> None:
    with pytest.raises(ConfigError, match="give only one of them"):
        checked(["a"], re.compile("a"))


# -- what must be dealt anew --------------------------------------------------------------------------


def test_topics_as_they_were_dealt_are_no_change() -> None:
    watch = watching(a=2, b=1)
    assert watch.changes(cluster({"a": 2, "b": 1, "other": 5})) == {}
    assert not watch.has_doubts


def test_partitions_that_were_added_are_a_change_at_once() -> None:
    assert watching(a=2, b=1).changes(cluster({"a": 3, "b": 1})) == {"a": 3}


def test_topic_that_nobody_had_seen_is_a_change_when_it_appears() -> None:
    watch = watching(a=2, late=0)
    for _ in range(10):
        assert watch.changes(cluster({"a": 2}, {"late": UNKNOWN})) == {}
    assert not watch.has_doubts, "it was dealt as missing, and is"
    assert watch.changes(cluster({"a": 2, "late": 4})) == {"late": 4}


MISSING = pytest.mark.parametrize(
    "missing", [{"errors": {"b": UNKNOWN}}, {}], ids=["unknown by its name", "not among all topics"]
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
    assert not watch.has_doubts, "it is believed"


@MISSING
def test_topic_that_is_seen_in_between_is_looked_for_anew(missing: dict[str, dict[str, ErrorCode]]) -> None:
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
        ErrorCode.NONE,  # and no partitions, as of a topic that is being made
    ],
)
def test_topic_that_answers_with_anything_else_is_never_gone(code: ErrorCode) -> None:
    watch = watching(a=2, b=1)
    for _ in range(20):
        assert watch.changes(cluster({"a": 2}, {"b": code})) == {}
        assert not watch.has_doubts


def test_same_answer_is_one_look_however_often_it_is_asked_about() -> None:
    watch, once = watching(b=1), cluster()
    for _ in range(20):
        assert watch.changes(once) == {}
    assert watch.has_doubts


def test_looks_of_each_topic_are_its_own() -> None:
    watch = watching(a=1, b=1)
    for _ in range(2):
        watch.changes(cluster({"b": 1}))
    for _ in range(2):
        assert watch.changes(cluster()) == {}
    assert watch.changes(cluster()) == {"a": 0}
    assert watch.has_doubts, "of b, which has been missing three times"


def test_what_is_dealt_anew_is_what_is_watched() -> None:
    watch, last = watching(a=2, b=1), cluster({"a": 2})
    for _ in range(3):
        watch.changes(cluster({"a": 2}))
    watch.changes(last)
    watch.assigned_from({"b": 1})
    assert not watch.has_doubts
    assert watch.changes(last) == {}, "the first look, by an answer that is had already"
    assert watch.has_doubts
    watch.assigned_from({})
    assert watch.changes(cluster()) == {}
    assert not watch.has_doubts


# -- what has been added ------------------------------------------------------------------------------


def is_new(growth: Growth, topic: str, count: int) -> list[bool]:
    return [growth.is_new(TopicPartition(topic, number)) for number in range(count)]


def test_partitions_beyond_those_first_seen_are_new() -> None:
    growth = Growth()
    growth.update(cluster({"a": 2}))
    growth.update(cluster({"a": 4}))
    assert is_new(growth, "a", 4) == [False, False, True, True]


def test_topic_that_was_never_seen_has_nothing_new() -> None:
    growth = Growth()
    assert is_new(growth, "a", 3) == [False] * 3
    growth.update(cluster({}, {"a": UNKNOWN}))
    growth.update(cluster({"a": 2}))
    assert is_new(growth, "a", 3) == [False, False, True], "it may have been there before it was asked about"


def test_topic_that_appears_among_all_topics_is_new_as_a_whole() -> None:
    growth = Growth()
    growth.update(everything({"a": 1}))
    growth.update(everything({"a": 1, "b": 2}))
    assert is_new(growth, "a", 1) == [False]
    assert is_new(growth, "b", 2) == [True, True]


def test_first_sight_of_all_topics_makes_none_of_them_new() -> None:
    growth = Growth()
    growth.update(cluster({"a": 1}))
    growth.update(everything())  # which tells nothing
    growth.update(everything({"a": 1, "b": 2}))
    assert is_new(growth, "b", 2) == [False, False]


def test_topic_that_was_only_not_asked_about_before_is_not_new() -> None:
    growth = Growth()
    growth.update(everything({"a": 1}))
    growth.update(cluster({"b": 2}))
    assert is_new(growth, "b", 2) == [False, False]


def test_topic_that_returns_is_new_as_a_whole() -> None:
    growth = Growth()
    growth.update(cluster({"a": 2}))
    growth.forget(["a", "never seen"])
    growth.update(cluster({"a": 2}))
    assert is_new(growth, "a", 2) == [True, True]
    assert is_new(growth, "never seen", 1) == [False]


def test_what_the_leader_tells_of_is_new() -> None:
    growth = Growth()
    growth.update(cluster({"a": 3}))
    growth.add([TopicPartition("a", 2)])
    assert is_new(growth, "a", 3) == [False, False, True]
