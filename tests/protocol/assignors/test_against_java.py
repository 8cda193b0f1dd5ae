"""Our assignors against Kafka's own, whose user data and results `golden/AssignorGolden.java` has written down."""

from pathlib import Path

import attrs
import pytest

from sarameya.protocol.assignors import ASSIGNORS, Subscription
from tests.protocol.assignors.kit import in_racks, mismatches, moved, next_round, owners, owning, spread

GOLDEN = Path(__file__).parent.parent / "golden" / "assignors.txt"
LINES = [line.split("\t") for line in GOLDEN.read_text().splitlines()]
GENERATION = 7


def partitions(text):
    rows = (row.split("/") for row in text.split())
    return {topic: tuple(map(int, numbers.split("+"))) for topic, numbers in rows}


@attrs.frozen
class Case:
    """A group and its assignment by Java."""

    name: str
    members: dict
    topics: dict
    before: dict
    result: dict

    @classmethod
    def read(cls, name, topics, members, result):
        rows = [row.split(",") for row in members.split(";")]
        subscriptions = {
            member: Subscription(
                tuple(filter(None, subscribed.split("+"))), rack_id=rack, group_instance_id=instance or None
            )
            for member, instance, rack, subscribed, _ in rows
        }
        before = {row[0]: partitions(row[-1]) for row in rows}
        if "sticky" in name:
            subscriptions = next_round(name, subscriptions, before, GENERATION)
        return cls(
            name,
            subscriptions,
            {topic: in_racks(*racks.split("/")) for topic, racks in (row.split("=") for row in topics.split())},
            before,
            {member: partitions(text) for member, text in (row.split(",") for row in result.split(";"))},
        )

    def assign(self):
        return ASSIGNORS[self.name]().assign(self.members, self.topics)


def cases(name):
    return [Case.read(*fields) for kind, *fields in LINES if kind == "divided" and fields[0] == name]


@pytest.mark.parametrize(
    ("name", "assigned", "generation", "expected"), [fields for kind, *fields in LINES if kind == "data"]
)
def test_user_data_equals_javas_bytes(name, assigned, generation, expected):
    if generation == "-1":
        written = ASSIGNORS[name]().subscription_user_data()
    else:
        written = owning(name, Subscription(()), partitions(assigned), int(generation)).user_data
    assert (written.hex() if written is not None else "null") == expected


@pytest.mark.parametrize(("name", "number"), [("range", 120), ("roundrobin", 40)])
def test_assignment_equals_javas_also_with_racks(name, number):
    read = cases(name)
    assert len(read) == number
    for case in read:
        assert case.assign() == case.result


def test_sticky_is_at_least_as_even_as_javas():
    for case in cases("sticky"):
        assert spread(case.assign()) <= spread(case.result)


def test_sticky_without_racks_moves_no_more_than_java():
    for case in cases("sticky"):
        if not any(topic.racks for topic in case.topics.values()):
            result = case.assign()
            assert (spread(result), len(moved(case.before, result))) <= (
                spread(case.result),
                len(moved(case.before, case.result)),
            )


def test_sticky_matches_racks_better_than_java_overall():
    our_mismatches = java_mismatches = 0
    for case in cases("sticky"):
        result = case.assign()
        if spread(result) == spread(case.result):
            our_mismatches += mismatches(result, case.members, case.topics)
            java_mismatches += mismatches(case.result, case.members, case.topics)
    assert our_mismatches <= java_mismatches
    assert java_mismatches > 0, "there was something to compare"


def test_cooperative_sticky_withholds_owned_partitions_like_java():
    for case in cases("cooperative-sticky"):
        for result in (case.assign(), case.result):
            assert moved(case.before, result) == set()
            assert owners(result).keys() <= owners(Case.assign(attrs.evolve(case, name="sticky"))).keys()
