"""Helpers of the assignor tests: short notation of groups, their next round, facts about a result."""

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
    """Topics of so many partitions each, of whose racks nothing is known."""
    return {topic: TopicLayout(count) for topic, count in counts.items()}


def in_racks(*racks: str) -> TopicLayout:
    """A topic whose partition 0 has replicas in the racks of the first word (a letter each), and so on."""
    return TopicLayout(len(racks), {number: frozenset(names) for number, names in enumerate(racks) if names})


def members_of(topics: Mapping[str, Iterable[str]]) -> dict[str, Subscription]:
    """Member id -> topics as members that come for the first time."""
    return {member: Subscription(tuple(names)) for member, names in topics.items()}


def alike(members: Iterable[str], *topics: str) -> dict[str, Subscription]:
    """Members that come for the first time and subscribe to the same."""
    return {member: Subscription(topics) for member in members}


def owning(name: RebalanceStrategy, subscription: Subscription, owned: Assignment, generation: int = 1) -> Subscription:
    """Make the subscription of a member that got `owned` in `generation`: in user data, or as owned partitions."""
    assignor = ASSIGNORS[name]()
    assignor.on_assignment(owned, None, generation)
    said = attrs.evolve(subscription, user_data=assignor.subscription_user_data())
    return attrs.evolve(said, owned_partitions=owned, generation_id=generation) if "coop" in name else said


def next_round(
    name: RebalanceStrategy, members: Mapping[str, Subscription], before: Result, generation: int = 1
) -> dict[str, Subscription]:
    """The members as they rejoin with what they got; who is not in `before` comes for the first time."""
    return {
        member: owning(name, said, before[member], generation) if member in before else said
        for member, said in members.items()
    }


def rebalance(
    name: RebalanceStrategy, members: Mapping[str, Subscription], topics: Mapping[str, TopicLayout], most: int
) -> list[dict[str, Assignment]]:
    """The result of each round of a rebalance of at most so many; the members are as they join first.

    Under a cooperative assignor a round in which somebody must give something up is followed by another.
    """
    results: list[dict[str, Assignment]] = []
    while len(results) < most:
        results.append(dict(ASSIGNORS[name]().assign(members, topics)))
        if not any(lost_by(members[member], results[-1][member]) for member in members):
            return results
        members = next_round(name, members, results[-1], len(results) + 1)
    raise AssertionError(f"not settled after {most} rounds")


def settled(
    name: RebalanceStrategy, members: Mapping[str, Subscription], topics: Mapping[str, TopicLayout], rounds: int
) -> dict[str, Assignment]:
    """Return the assignments at the end of a rebalance of at most so many rounds; members first join as given."""
    return rebalance(name, members, topics, rounds)[-1]


def lost_by(said: Subscription, assignment: Assignment) -> set[TopicPartition]:
    """Return the partitions that a cooperative member must revoke."""
    return set(topic_partitions(said.owned_partitions)) - set(topic_partitions(assignment))


def owners(result: Result) -> dict[TopicPartition, str]:
    """Partition -> its member. Fails where there are two."""
    dealt = [(partition, member) for member, assignment in result.items() for partition in topic_partitions(assignment)]
    assert len(dict(dealt)) == len(dealt), "a partition is assigned twice"
    return dict(dealt)


def counts(result: Result) -> list[int]:
    return [len(topic_partitions(assignment)) for assignment in result.values()]


def moved(before: Result, after: Result) -> set[TopicPartition]:
    """Partitions that somebody had and somebody else has now."""
    had, has = owners(before), owners(after)
    return {partition for partition, member in has.items() if had.get(partition, member) != member}


def mismatches(result: Result, members: Mapping[str, Subscription], topics: Mapping[str, TopicLayout]) -> int:
    """Partitions, their racks known, with a member whose rack is known and none of them."""
    return sum(
        bool(members[member].rack_id and racks and members[member].rack_id not in racks)
        for (topic, number), member in owners(result).items()
        for racks in [topics[topic].racks.get(number)]
    )


def spread(result: Result) -> int:
    """Kafka's measure of imbalance: the sum of all differences between two members' counts."""
    return sum(abs(a - b) for a, b in combinations(counts(result), 2))


def improvable(result: Result, members: Mapping[str, Subscription]) -> list[str]:
    """Members from which a partition could go, through however many hands, to one with two or more less."""
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
    had = Counter({member: len(topic_partitions(before.get(member, {}))) for member in members})
    share, more = divmod(partitions, len(had))
    kept = sum(min(count, share) for count in had.values()) + min(more, sum(count > share for count in had.values()))
    return had.total() - kept
