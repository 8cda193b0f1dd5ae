"""Random groups with an earlier assignment, against the least imbalance, mismatches and moves that exist."""

import random
from collections import defaultdict

from sarameya.protocol.assignors import StickyAssignor, Subscription, TopicLayout
from tests.protocol.assignors.kit import next_round, rebalance
from tests.protocol.assignors.minimum_cost_flow import cost, least_cost

TOPICS = ("t0", "t1", "t2", "t3")
RACKS = ("a", "b", "c")


def random_case(seed, *, equal, racks):
    """Return members that join for the first time, topics, and the earlier owner of most partitions."""
    dice = random.Random(seed)
    topics = {}
    for topic in TOPICS:
        count = dice.randint(0, 6)
        known = {
            n: frozenset(dice.sample(RACKS, dice.randint(1, 2))) for n in range(count) if racks and dice.random() < 0.9
        }
        topics[topic] = TopicLayout(count, known)
    members = {
        member: Subscription(
            TOPICS if equal else tuple(topic for topic in TOPICS if dice.random() < 0.6),
            rack_id=dice.choice(("", *RACKS, *RACKS)) if racks else "",
        )
        for member in "ABCDEFG"[: dice.randint(1, 7)]
    }
    favourites = dice.sample(sorted(members), len(members))[: dice.randint(1, len(members))]
    before = {member: defaultdict(tuple) for member in members}
    for topic, layout in topics.items():
        takers = [member for member in favourites if topic in members[member].topics]
        for number in range(layout.partitions):
            if takers and dice.random() < 0.8:
                before[dice.choice(takers)][topic] += (number,)
    return members, topics, before


def costs(seeds, **kinds):
    """Yield the cost of our assignment and the least cost, case by case."""
    for seed in seeds:
        members, topics, before = random_case(seed, **kinds)
        result = StickyAssignor().assign(next_round("sticky", members, before), topics)
        yield cost(before, result, members, topics), least_cost(before, members, topics)


def test_equal_subscriptions_have_the_least_cost():
    assert all(actual == least for actual, least in costs(range(80), equal=True, racks=False))


def test_unequal_subscriptions_are_even_with_few_moves():
    moves = least_moves = 0
    for actual, least in costs(range(160), equal=False, racks=False):
        assert actual.imbalance == least.imbalance
        moves += actual.moves
        least_moves += least.moves
    assert least_moves > 150, "there was something to move"
    assert moves <= 1.02 * least_moves


def test_equal_subscriptions_in_racks_have_fewest_mismatches():
    moves = least_moves = 0
    for actual, least in costs(range(120), equal=True, racks=True):
        assert actual[:2] == least[:2]
        moves += actual.moves
        least_moves += least.moves
    assert moves <= 1.08 * least_moves


def test_unequal_subscriptions_in_racks_are_even():
    mismatches = fewest = 0
    for actual, least in costs(range(120), equal=False, racks=True):
        assert actual.imbalance == least.imbalance
        mismatches += actual.mismatches
        fewest += least.mismatches
    assert fewest > 250, "racks were scarce"
    assert mismatches <= 1.25 * fewest


def test_third_round_for_racks_is_rare():
    rounds = []
    for seed in range(240):
        members, topics, before = random_case(seed, equal=False, racks=True)
        members = next_round("cooperative-sticky", members, before)
        rounds.append(len(rebalance("cooperative-sticky", members, topics, rounds=3)))
    assert rounds.count(2) > 100
    assert rounds.count(3) <= 3
