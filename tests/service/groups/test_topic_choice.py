from __future__ import annotations

import re

import pytest

from sarameya.error_codes import ErrorCode
from sarameya.errors import TopicAuthorizationError, UnknownTopicError
from sarameya.protocol.cluster.metadata import ClusterMetadata, PartitionMetadata, TopicMetadata
from sarameya.service.groups.checks import GroupChangeError
from sarameya.service.groups.topic_choice import TopicChoice, resolve
from tests.service.groups.kit import BROKER, tp

CLUSTER = ClusterMetadata(
    {1: BROKER},
    {
        "orders": TopicMetadata("orders", 0, {n: PartitionMetadata(1) for n in range(4)}),
        "one": TopicMetadata("one", 0, {0: PartitionMetadata(None)}),
        "secret": TopicMetadata("secret", ErrorCode.TOPIC_AUTHORIZATION_FAILED),
    },
)


@pytest.mark.parametrize(
    ("text", "choice"),
    [
        ("orders", TopicChoice("orders")),
        ("orders:3", TopicChoice("orders", (3,))),
        ("orders:2,0", TopicChoice("orders", (0, 2))),
        ("a.b_c-d:0,2-4,3", TopicChoice("a.b_c-d", (0, 2, 3, 4))),
    ],
)
def test_topic_and_partitions_are_parsed(text: str, choice: TopicChoice) -> None:
    assert TopicChoice.parse(text) == choice


@pytest.mark.parametrize("text", ["", ":0", "orders:", "orders:a", "orders:-1", "orders:1-", "or/ders", "a:0:1", "é"])
def test_invalid_choice_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(ValueError, match=re.escape(f"{text!r} must be TOPIC or TOPIC:PARTITIONS, for example orders")):
        TopicChoice.parse(text)


@pytest.mark.parametrize("text", ["orders:3-1", "orders:0-99999999999"])
def test_invalid_range_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is no range of partitions"):
        TopicChoice.parse(text)


def test_choices_become_distinct_partitions_in_order() -> None:
    choices = [TopicChoice("orders", (1, 3)), TopicChoice("one"), TopicChoice("orders", (1,))]
    assert resolve(choices, CLUSTER) == [tp("one-0"), tp("orders-1"), tp("orders-3")]
    assert len(resolve([TopicChoice("orders")], CLUSTER)) == 4


def test_missing_topic_is_reported_with_its_name() -> None:
    with pytest.raises(UnknownTopicError, match="topic 'ordrs': UNKNOWN_TOPIC_OR_PARTITION"):
        resolve([TopicChoice("ordrs")], CLUSTER)


def test_unauthorized_topic_is_reported_as_such() -> None:
    with pytest.raises(TopicAuthorizationError, match="topic 'secret'"):
        resolve([TopicChoice("secret", (0,))], CLUSTER)


@pytest.mark.parametrize(("topic", "number", "has"), [("orders", 4, "4 partitions"), ("one", 7, "1 partition")])
def test_missing_partition_is_reported_with_the_existing_ones(topic: str, number: int, has: str) -> None:
    with pytest.raises(
        GroupChangeError, match=f"{topic}-{number} does not exist: topic '{topic}' has {has}, from 0 on"
    ):
        resolve([TopicChoice(topic, (number,))], CLUSTER)


def test_choice_covers_partitions_by_number() -> None:
    assert TopicChoice("gone").covers(tp("gone-9"))
    assert TopicChoice("gone", (9,)).covers(tp("gone-9"))
    assert not TopicChoice("gone", (8,)).covers(tp("gone-9"))
    assert not TopicChoice("orders").covers(tp("gone-9"))
