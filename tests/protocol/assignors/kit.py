"""Helpers of the assignor tests: short notation of groups, their next rebalance, facts about an assignment."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import combinations

import attrs

from sarameya.config import RebalanceStrategy
from sarameya.model import Assignment, TopicPartition, topic_partitions
from sarameya.protocol.assignors import ASSIGNORS, Subscription, TopicLayout

Result = Mapping[str, Assignment]


def layouts(counts: Mapping[str, int]) -> dict[str, TopicLayout]:
    """Return topics with these partition counts, without known racks."""
    return {topic: TopicLayout(count) for topic, count in counts.items()}


def in_racks(*racks: str) -> TopicLayout:
    """Return a topic with a partition for each string. Each letter of a string is a rack with a replica."""
    return TopicLayout(len(racks), {number: frozenset(names) for number, names in enumerate(racks) if names})


def members_of(topics: Mapping[str, Iterable[str]]) -> dict[str, Subscription]:
    """Return members without owned partitions, from the topics that each subscribes to."""
    return {member: Subscription(tuple(names)) for member, names in topics.items()}


def alike(members: Iterable[str], *topics: str) -> dict[str, Subscription]:
    """Return members without owned partitions that all subscribe to the same topics."""
    return {member: Subscription(topics) for member in members}


def owning(name: RebalanceStrategy, subscription: Subscription, owned: Assignment, generation: int = 1) -> Subscription:
    """Add the assignment `owned` of `generation` to a subscription: in user data, or as owned partitions."""
    assignor = ASSIGNORS[name]()
    assignor.on_assignment(owned, None, generation)
    with_data = attrs.evolve(subscription, user_data=assignor.subscription_user_data())
    return attrs.evolve(with_data, owned_partitions=owned, generation_id=generation) if "coop" in name else with_data


def next_round(
    name: RebalanceStrategy, members: Mapping[str, Subscription], before: Result, generation: int = 1
) -> dict[str, Subscription]:
    """Return the subscriptions with which the members rejoin: those in `before` with their assignment."""
    return {
        member: owning(name, subscription, before[member], generation) if member in before else subscription
        for member, subscription in members.items()
    }


def rebalance(
    name: RebalanceStrategy, members: Mapping[str, Subscription], topics: Mapping[str, TopicLayout], rounds: int
) -> list[dict[str, Assignment]]:
    """Return the assignments of each round of a rebalance of at most `rounds` rounds.

    `members` are the subscriptions of the first round. Under a cooperative assignor another round follows if a member
    must revoke partitions.
    """
    results: list[dict[str, Assignment]] = []
    while len(results) < rounds:
        results.append(dict(ASSIGNORS[name]().assign(members, topics)))
        if not any(lost_by(members[member], results[-1][member]) for member in members):
            return results
        members = next_round(name, members, results[-1], len(results) + 1)
    raise AssertionError(f"not settled after {rounds} rounds")


def settled(
    name: RebalanceStrategy, members: Mapping[str, Subscription], topics: Mapping[str, TopicLayout], rounds: int
) -> dict[str, Assignment]:
    """Return the assignments after the last round of `rebalance`."""
    return rebalance(name, members, topics, rounds)[-1]


def lost_by(subscription: Subscription, assignment: Assignment) -> set[TopicPartition]:
    """Return the partitions that a cooperative member must revoke."""
    return set(topic_partitions(subscription.owned_partitions)) - set(topic_partitions(assignment))


def owners(result: Result) -> dict[TopicPartition, str]:
    """Return the member of each partition. Fails if a partition has two."""
    pairs = [(partition, member) for member, assignment in result.items() for partition in topic_partitions(assignment)]
    assert len(dict(pairs)) == len(pairs), "a partition is assigned twice"
    return dict(pairs)


def counts(result: Result) -> list[int]:
    return [len(topic_partitions(assignment)) for assignment in result.values()]


def moved(before: Result, after: Result) -> set[TopicPartition]:
    """Return the partitions that moved from one member to another."""
    old, new = owners(before), owners(after)
    return {partition for partition, member in new.items() if old.get(partition, member) != member}


def mismatches(result: Result, members: Mapping[str, Subscription], topics: Mapping[str, TopicLayout]) -> int:
    """Return the number of partitions without a replica in their member's rack, if both racks are known."""
    return sum(
        bool(members[member].rack_id and racks and members[member].rack_id not in racks)
        for (topic, number), member in owners(result).items()
        for racks in [topics[topic].racks.get(number)]
    )


def spread(result: Result) -> int:
    """Return Kafka's measure of imbalance: the sum of the differences between the counts of each two members."""
    return sum(abs(a - b) for a, b in combinations(counts(result), 2))


def improvable(result: Result, members: Mapping[str, Subscription]) -> list[str]:
    """Return the members from which moves, direct or through others, lead to a member with at least two fewer."""
    loads = dict(zip(result, counts(result), strict=True))
    subscribers = {topic: {m for m in members if topic in members[m].topics} for m in members for topic in result[m]}
    found = []
    for start in members:
        reached, fresh = {start}, [start]
        while fresh:
            takers = {taker for topic in result[fresh.pop()] for taker in subscribers[topic]} - reached
            reached |= takers
            fresh += takers
        if min(loads[member] for member in reached) < loads[start] - 1:
            found.append(start)
    return found


def least_moves(before: Result, members: Iterable[str], partitions: int) -> int:
    """Count the owned partitions that must move for an even assignment (equal subscriptions)."""
    owned = Counter({member: len(topic_partitions(before.get(member, {}))) for member in members})
    share, more = divmod(partitions, len(owned))
    above = sum(count > share for count in owned.values())
    kept = sum(min(count, share) for count in owned.values()) + min(more, above)
    return owned.total() - kept
