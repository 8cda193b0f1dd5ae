"""Properties of the sticky assignors for any group, with any previous assignment."""

from unittest.mock import patch

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sarameya.model import topic_partitions
from sarameya.protocol.assignors import (
    ASSIGNORS,
    CooperativeStickyAssignor,
    StickyAssignor,
    Subscription,
    TopicLayout,
    rack_matching,
)
from tests.protocol.assignors.kit import (
    counts,
    improvable,
    layouts,
    least_moves,
    lost_by,
    mismatches,
    moved,
    next_round,
    owners,
    owning,
    settled,
)

NAMES = ("sticky", "cooperative-sticky")
TOPICS = ("t0", "t1", "t2", "u")
RACKS = ("a", "b", "c")

either = pytest.mark.parametrize("name", NAMES)

partition_counts = st.dictionaries(st.sampled_from(TOPICS), st.integers(0, 9))
member_ids = st.sampled_from("ABCDEFG")
topic_sets = st.lists(st.sampled_from(TOPICS), unique=True).map(tuple)
unequal = st.dictionaries(member_ids, topic_sets, max_size=7)
equal = st.sets(member_ids, min_size=1).map(lambda ids: dict.fromkeys(ids, TOPICS))
rack_ids = st.sampled_from(("", *RACKS))


def topics_with_racks(draw, partitions):
    racks = st.frozensets(st.sampled_from(RACKS), max_size=2)
    return {
        topic: TopicLayout(count, {n: found for n in range(count) if (found := draw(racks))})
        for topic, count in partitions.items()
    }


def subscriptions(topics_by_member, racks=None):
    return {m: Subscription(topics, rack_id=(racks or {}).get(m, "")) for m, topics in topics_by_member.items()}


@st.composite
def claims(draw, name, members, partitions):
    """Strategy for previous assignments that members may claim, contradictions included."""
    rows = st.dictionaries(st.sampled_from((*TOPICS, "gone")), st.lists(st.integers(0, 10), unique=True).map(tuple))
    return {
        member: owning(name, subscription, draw(rows), draw(st.integers(-1, 3)))
        if draw(st.booleans())
        else subscription
        for member, subscription in members.items()
    }


@st.composite
def with_history(draw, name, groups):
    """Strategy for members and topics of a changed group, and for the members' assignments before the change."""
    before = subscriptions(draw(groups))
    topics = layouts(draw(partition_counts))
    earlier = settled(name, before, topics, rounds=1)
    members = subscriptions(draw(groups))
    return (
        members,
        layouts(draw(partition_counts)),
        {member: earlier[member] for member in members if member in earlier},
    )


def wanted(members, topics):
    subscribed = {topic for subscription in members.values() for topic in subscription.topics}
    return {(topic, n) for topic, layout in topics.items() if topic in subscribed for n in range(layout.partitions)}


@either
@given(data=st.data(), groups=unequal, partitions=partition_counts, racks=st.dictionaries(member_ids, rack_ids))
def test_any_claims_give_an_even_assignment(name, data, groups, partitions, racks):
    members = data.draw(claims(name, subscriptions(groups, racks), partitions))
    topics = topics_with_racks(data.draw, partitions)
    result = ASSIGNORS[name]().assign(members, topics)

    if name == "cooperative-sticky":
        # No member gets a partition that another owns, or may own. Later rounds assign everything.
        assert owners(result).keys() <= wanted(members, topics)
        for member, assignment in result.items():
            others = {
                tp for other in members if other != member for tp in topic_partitions(members[other].owned_partitions)
            }
            own = topic_partitions(members[member].owned_partitions)
            assert set(topic_partitions(assignment)) & others <= set(own)
        result = settled(name, members, topics, rounds=8)
    assert result.keys() == members.keys()
    assert owners(result).keys() == wanted(members, topics)
    assert all(result[member].keys() <= set(subscription.topics) for member, subscription in members.items())
    assert improvable(result, members) == []


@either
@given(data=st.data(), groups=unequal, partitions=partition_counts, racks=st.dictionaries(member_ids, rack_ids))
def test_order_of_the_arguments_does_not_matter(name, data, groups, partitions, racks):
    members = data.draw(claims(name, subscriptions(groups, racks), partitions))
    topics = topics_with_racks(data.draw, partitions)
    shuffled = {
        member: attrs.evolve(members[member], topics=tuple(data.draw(st.permutations(members[member].topics))))
        for member in data.draw(st.permutations(list(members)))
    }
    shuffled_topics = {topic: topics[topic] for topic in data.draw(st.permutations(list(topics)))}
    assert ASSIGNORS[name]().assign(shuffled, shuffled_topics) == ASSIGNORS[name]().assign(members, topics)


@given(members=equal, partitions=partition_counts)
def test_equal_subscriptions_are_assigned_evenly(members, partitions):
    loads = counts(StickyAssignor().assign(subscriptions(members), layouts(partitions)))
    assert max(loads) - min(loads) <= 1


@given(data=st.data())
def test_equal_subscriptions_move_no_more_than_balance_requires(data):
    members, topics, earlier = data.draw(with_history("sticky", equal))
    result = StickyAssignor().assign(next_round("sticky", members, earlier), topics)

    exists = wanted(members, topics)
    kept = {m: {t: ns for t in a if (ns := tuple(n for n in a[t] if (t, n) in exists))} for m, a in earlier.items()}
    assert len(moved(kept, result)) == least_moves(kept, members, len(exists))
    assert max(counts(result)) - min(counts(result)) <= 1


@given(data=st.data(), groups=equal)
def test_remaining_equal_subscribers_keep_all(data, groups):
    topics = layouts(data.draw(partition_counts))
    before = StickyAssignor().assign(subscriptions(groups), topics)
    departed = data.draw(st.sampled_from(sorted(groups)))
    survivors = subscriptions({member: names for member, names in groups.items() if member != departed})
    result = StickyAssignor().assign(next_round("sticky", survivors, before), topics)
    assert all(set(topic_partitions(before[m])) <= set(topic_partitions(result[m])) for m in survivors)


@either
@given(data=st.data(), racks=st.dictionaries(member_ids, rack_ids))
def test_unchanged_group_keeps_its_assignment(name, data, racks):
    members, topics, earlier = data.draw(with_history(name, unequal))
    members = {
        member: attrs.evolve(subscription, rack_id=racks.get(member, "")) for member, subscription in members.items()
    }
    topics = topics_with_racks(data.draw, {topic: layout.partitions for topic, layout in topics.items()})
    result = settled(name, next_round(name, members, earlier), topics, rounds=8)
    assert ASSIGNORS[name]().assign(next_round(name, members, result), topics) == result


@given(data=st.data())
def test_cooperative_group_settles_in_two_rounds(data):
    name = "cooperative-sticky"
    members, topics, earlier = data.draw(with_history(name, unequal))
    members = next_round(name, members, earlier)
    first = CooperativeStickyAssignor().assign(members, topics)
    second_members = next_round(name, members, first, 2)
    second = CooperativeStickyAssignor().assign(second_members, topics)
    assert all(lost_by(subscription, second[member]) == set() for member, subscription in second_members.items())
    assert owners(second).keys() == wanted(members, topics)


@given(data=st.data())
def test_cooperative_group_is_as_even_as_an_eager_one(data):
    members, topics, earlier = data.draw(with_history("cooperative-sticky", unequal))
    eager = StickyAssignor().assign(next_round("sticky", members, earlier), topics)
    cooperative = settled("cooperative-sticky", next_round("cooperative-sticky", members, earlier), topics, rounds=2)
    assert sorted(counts(cooperative)) == sorted(counts(eager))


@given(data=st.data(), groups=equal | unequal, partitions=partition_counts, racks=st.dictionaries(member_ids, rack_ids))
def test_racks_cost_no_balance_and_match_at_least_as_well(data, groups, partitions, racks):
    members = subscriptions(groups, racks)
    topics = topics_with_racks(data.draw, partitions)
    with_racks = StickyAssignor().assign(members, topics)
    without_racks = StickyAssignor().assign(members, layouts(partitions))
    assert sorted(counts(with_racks)) == sorted(counts(without_racks))
    assert mismatches(with_racks, members, topics) <= mismatches(without_racks, members, topics)


def with_steps(steps):
    """Limit the work on racks to `steps`, whatever the number of partitions."""
    return patch.multiple(rack_matching, _STEPS=steps, _STEPS_A_PARTITION=0)


@given(
    data=st.data(),
    groups=equal | unequal,
    partitions=partition_counts,
    racks=st.dictionaries(member_ids, rack_ids),
    steps=st.integers(0, 100),
)
def test_balance_is_the_same_for_any_work_on_racks(data, groups, partitions, racks, steps):
    members = data.draw(claims("sticky", subscriptions(groups, racks), partitions))
    topics = topics_with_racks(data.draw, partitions)
    with with_steps(steps):
        result = StickyAssignor().assign(members, topics)
    without_racks = StickyAssignor().assign(members, layouts(partitions))
    assert sorted(counts(result)) == sorted(counts(without_racks))
    assert owners(result).keys() == wanted(members, topics)
    assert improvable(result, members) == []


@given(data=st.data(), racks=st.dictionaries(member_ids, rack_ids))
def test_no_work_on_racks_moves_nothing_more(data, racks):
    members, topics, earlier = data.draw(with_history("sticky", equal))
    members = {
        member: attrs.evolve(subscription, rack_id=racks.get(member, "")) for member, subscription in members.items()
    }
    in_racks = topics_with_racks(data.draw, {topic: layout.partitions for topic, layout in topics.items()})
    with with_steps(0):
        result = StickyAssignor().assign(next_round("sticky", members, earlier), in_racks)
    without_racks = StickyAssignor().assign(next_round("sticky", members, earlier), topics)
    assert len(moved(earlier, result)) == len(moved(earlier, without_racks))
