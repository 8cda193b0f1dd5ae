"""Checks of an assignor's results, whoever wrote it."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sarameya.errors import AssignorError, ConfigError
from sarameya.protocol.assignors import (
    ASSIGNORS,
    Assignor,
    CooperativeStickyAssignor,
    RangeAssignor,
    RebalanceProtocol,
    RoundRobinAssignor,
    Subscription,
    calling,
)
from tests.protocol.assignors.kit import alike, layouts, owning
from tests.protocol.assignors.test_sticky_properties import claims, partition_counts, subscriptions, unequal

MEMBERS = alike("AB", "orders")
TOPICS = layouts({"orders": 2, "returns": 1})


class Fixed(Assignor):
    """Gives back what it was made with, or raises it."""

    name = "fixed"

    def __init__(self, result):
        self.result = result

    def assign(self, members, topics):
        return self._give()

    def subscription_user_data(self):
        return self._give()

    def assignment_user_data(self, member_id, assignment):
        return self._give()

    def on_assignment(self, assignment, user_data, generation):
        self._give()

    def _give(self):
        if isinstance(self.result, Exception):
            raise self.result
        return self.result


def assign(result, members=MEMBERS, *, is_cooperative=False):
    return calling.assign(Fixed(result), members, TOPICS, is_cooperative=is_cooperative)


# -- what is assigned --------------------------------------------------------------------------------


def test_any_other_assignment_is_given_out_as_it_is():
    assert assign({"A": {"orders": [1, 0]}, "B": {}}) == {"A": {"orders": (1, 0)}, "B": {}}


def test_missing_member_and_empty_topic_are_valid():
    assert assign({"A": {"orders": (0,), "returns": (), "gone": ()}}) == {
        "A": {"orders": (0,), "returns": (), "gone": ()}
    }


@pytest.mark.parametrize(
    ("result", "problem"),
    [
        ({"A": {"orders": (0,)}, "B": {"orders": (1, 0)}}, "orders-0 to member B: it is assigned to member A already"),
        ({"A": {"orders": (1, 1)}}, "orders-1 to member A: it is assigned to member A already"),
        ({"A": {"orders": (2,)}}, "orders-2 to member A: there is no such partition"),
        ({"A": {"orders": (-1,)}}, "orders--1 to member A: there is no such partition"),
        ({"A": {"gone": (0,)}}, "gone-0 to member A: there is no such partition"),
        ({"A": {"returns": (0,)}}, "returns-0 to member A: the member does not subscribe to the topic"),
        ({"A": {}, "C": {}}, "it assigns to 'C', which is not a member of the group"),
        (None, "reading that raised AttributeError"),
        ({"A": None}, "reading that raised AttributeError"),
        ({"A": {"orders": 0}}, "reading that raised TypeError"),
        ({"A": {"orders": "0"}}, "reading that raised TypeError"),
        ({"A": {"orders": (0.0,)}}, "reading that raised TypeError"),
    ],
)
def test_what_cannot_be_given_out_is_an_error_that_says_which(result, problem):
    with pytest.raises(AssignorError) as caught:
        assign(result)
    assert str(caught.value).startswith("assignor 'fixed': ")
    assert problem in str(caught.value)


def test_owned_partition_is_not_assigned_when_members_keep_theirs():
    members = MEMBERS | {"A": Subscription(("orders",), owned_partitions={"orders": (0, 1), "gone": (7,)})}
    taken = {"A": {"orders": (0,)}, "B": {"orders": (1,)}}
    with pytest.raises(AssignorError, match=r"orders-1 to member B while member A owns it.*KIP-429"):
        assign(taken, members, is_cooperative=True)
    assert assign(taken, members) == taken, "an eager group has given everything up"
    withheld = {"A": {"orders": (0,)}, "B": {}}
    assert assign(withheld, members, is_cooperative=True) == withheld


def test_of_two_that_say_they_own_it_either_may_keep_it():
    members = {each: Subscription(("orders",), owned_partitions={"orders": (0,)}) for each in "AB"}
    for keeper in "AB":
        assert assign({keeper: {"orders": (0,)}}, members, is_cooperative=True)


@pytest.mark.parametrize("name", ASSIGNORS)
@given(data=st.data(), groups=unequal, partitions=partition_counts)
def test_what_our_own_assign_can_always_be_given_out(name, data, groups, partitions):
    members, topics = subscriptions(groups), layouts(partitions)
    if "sticky" in name:
        members = data.draw(claims(name, members, partitions))
    dealt = calling.assign(ASSIGNORS[name](), members, topics, is_cooperative=name == "cooperative-sticky")
    assert dealt == ASSIGNORS[name]().assign(members, topics)


def test_check_of_2000_members_and_10000_partitions_is_fast():
    topics = layouts({f"topic-{number:03}": 20 for number in range(500)})
    members = alike((f"member-{number:04}" for number in range(2_000)), *topics)
    dealt = RoundRobinAssignor().assign(members, topics)
    members = {member: owning("cooperative-sticky", said, dealt[member]) for member, said in members.items()}
    took = []
    for _ in range(3):  # one of them may meet the garbage collection of all that the tests before have left
        start = time.process_time()
        calling.assign(Fixed(dealt), members, topics, is_cooperative=True)
        took.append(time.process_time() - start)
    assert min(took) < 0.5


# -- what it raises ----------------------------------------------------------------------------------

CALLS = {
    "assign()": lambda assignor: calling.assign(assignor, MEMBERS, TOPICS, is_cooperative=False),
    "subscription_user_data()": calling.subscription_user_data,
    "assignment_user_data() for member A": lambda assignor: calling.assignment_user_data(assignor, "A", {}),
    "on_assignment() of generation 3": lambda assignor: calling.on_assignment(assignor, {}, None, 3),
}


@pytest.mark.parametrize("call", CALLS)
def test_whatever_it_raises_names_it_and_is_the_cause(call):
    cause = LookupError("no weight")
    with pytest.raises(AssignorError) as caught:
        CALLS[call](Fixed(cause))
    assert str(caught.value) == f"assignor 'fixed': {call} raised LookupError: no weight"
    assert caught.value.__cause__ is cause


@pytest.mark.parametrize("call", [call for call in CALLS if "user_data" in call])
def test_user_data_is_bytes_or_nothing(call):
    with pytest.raises(AssignorError, match="returned str, not bytes or None"):
        CALLS[call](Fixed("3"))
    assert [CALLS[call](Fixed(data)) for data in (None, b"", b"3")] == [None, b"", b"3"]


# -- what is none ------------------------------------------------------------------------------------


class Nameless(RangeAssignor):
    name = None


class Numbered(RangeAssignor):
    name = 5


class Empty(RangeAssignor):
    name = ""


class Protocolless(RangeAssignor):
    protocols = frozenset({"eager"})


class OneProtocol(RangeAssignor):
    """A mistake that is easily made: no set around it."""

    protocols = RebalanceProtocol.EAGER


class OnlyCooperative(RangeAssignor):
    name = "only-cooperative"
    protocols = frozenset({RebalanceProtocol.COOPERATIVE})


class WithoutName(Assignor):
    def assign(self, members, topics):
        return {}


@pytest.mark.parametrize(
    ("assignors", "allowed"),
    [
        (RangeAssignor(), "must be a list"),
        ([RangeAssignor], r"is a class: give an instance of it, RangeAssignor\(...\)"),
        (["range"], "is not an instance of a subclass of sarameya.Assignor"),
        ("range", "is not an instance"),
        ([WithoutName()], "`name` must be a non-empty string, not None"),
        ([Nameless()], "`name` must be a non-empty string, not None"),
        ([Numbered()], "`name` must be a non-empty string, not 5"),
        ([Empty()], "`name` must be a non-empty string"),
        ([Protocolless()], "`protocols` must be"),
        ([OneProtocol()], "`protocols` must be"),
        ([RangeAssignor(), RangeAssignor()], "twice"),
        ([OnlyCooperative(), RangeAssignor()], "must all support one rebalance protocol"),
    ],
)
def test_what_is_no_assignor_is_a_config_error(assignors, allowed):
    with pytest.raises(ConfigError, match=allowed) as caught:
        calling.usable(assignors)
    assert caught.value.option == "assignors"


def test_assignors_that_go_together_are_taken_in_their_order():
    assignors = [CooperativeStickyAssignor(), RangeAssignor()]
    assert calling.usable(assignors) == tuple(assignors)
    assert calling.usable(()) == ()
