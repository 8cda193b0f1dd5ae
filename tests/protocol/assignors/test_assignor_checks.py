"""Checks of the results of any assignor."""

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
    """An assignor that returns, or raises, a fixed result."""

    name = "fixed"

    def __init__(self, result):
        self.result = result

    def assign(self, members, topics):
        return self._outcome()

    def subscription_user_data(self):
        return self._outcome()

    def assignment_user_data(self, member_id, assignment):
        return self._outcome()

    def on_assignment(self, assignment, user_data, generation):
        self._outcome()

    def _outcome(self):
        if isinstance(self.result, Exception):
            raise self.result
        return self.result


def assign(result, members=MEMBERS, *, is_cooperative=False):
    return calling.assign(Fixed(result), members, TOPICS, is_cooperative=is_cooperative)


# -- assignments -------------------------------------------------------------------------------------


def test_valid_assignment_is_returned_unchanged():
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
def test_invalid_assignment_error_names_the_problem(result, problem):
    with pytest.raises(AssignorError) as caught:
        assign(result)
    assert str(caught.value).startswith("assignor 'fixed': ")
    assert problem in str(caught.value)


def test_cooperative_group_does_not_assign_an_owned_partition():
    members = MEMBERS | {"A": Subscription(("orders",), owned_partitions={"orders": (0, 1), "gone": (7,)})}
    taken = {"A": {"orders": (0,)}, "B": {"orders": (1,)}}
    with pytest.raises(AssignorError, match=r"orders-1 to member B while member A owns it.*KIP-429"):
        assign(taken, members, is_cooperative=True)
    assert assign(taken, members) == taken, "an eager group has revoked everything"
    withheld = {"A": {"orders": (0,)}, "B": {}}
    assert assign(withheld, members, is_cooperative=True) == withheld


def test_partition_claimed_twice_may_stay_with_either():
    members = {each: Subscription(("orders",), owned_partitions={"orders": (0,)}) for each in "AB"}
    for keeper in "AB":
        assert assign({keeper: {"orders": (0,)}}, members, is_cooperative=True)


@pytest.mark.parametrize("name", ASSIGNORS)
@given(data=st.data(), groups=unequal, partitions=partition_counts)
def test_assignments_of_built_in_assignors_are_valid(name, data, groups, partitions):
    members, topics = subscriptions(groups), layouts(partitions)
    if "sticky" in name:
        members = data.draw(claims(name, members, partitions))
    assigned = calling.assign(ASSIGNORS[name](), members, topics, is_cooperative=name == "cooperative-sticky")
    assert assigned == ASSIGNORS[name]().assign(members, topics)


def test_check_of_2000_members_and_10000_partitions_is_fast():
    topics = layouts({f"topic-{number:03}": 20 for number in range(500)})
    members = alike((f"member-{number:04}" for number in range(2_000)), *topics)
    assigned = RoundRobinAssignor().assign(members, topics)
    members = {
        member: owning("cooperative-sticky", subscription, assigned[member]) for member, subscription in members.items()
    }
    seconds = []
    for _ in range(3):  # one of them may include the garbage collection of earlier tests' objects
        start = time.process_time()
        calling.assign(Fixed(assigned), members, topics, is_cooperative=True)
        seconds.append(time.process_time() - start)
    assert min(seconds) < 0.5


# -- exceptions --------------------------------------------------------------------------------------

CALLS = {
    "assign()": lambda assignor: calling.assign(assignor, MEMBERS, TOPICS, is_cooperative=False),
    "subscription_user_data()": calling.subscription_user_data,
    "assignment_user_data() for member A": lambda assignor: calling.assignment_user_data(assignor, "A", {}),
    "on_assignment() of generation 3": lambda assignor: calling.on_assignment(assignor, {}, None, 3),
}


@pytest.mark.parametrize("call", CALLS)
def test_exception_of_an_assignor_is_wrapped_with_its_name(call):
    cause = LookupError("no weight")
    with pytest.raises(AssignorError) as caught:
        CALLS[call](Fixed(cause))
    assert str(caught.value) == f"assignor 'fixed': {call} raised LookupError: no weight"
    assert caught.value.__cause__ is cause


@pytest.mark.parametrize("call", [call for call in CALLS if "user_data" in call])
def test_user_data_is_bytes_or_none(call):
    with pytest.raises(AssignorError, match="returned str, not bytes or None"):
        CALLS[call](Fixed("3"))
    assert [CALLS[call](Fixed(data)) for data in (None, b"", b"3")] == [None, b"", b"3"]


# -- invalid assignors -------------------------------------------------------------------------------


class Nameless(RangeAssignor):
    name = None


class Numbered(RangeAssignor):
    name = 5


class Empty(RangeAssignor):
    name = ""


class Protocolless(RangeAssignor):
    protocols = frozenset({"eager"})


class OneProtocol(RangeAssignor):
    """A frequent mistake: a protocol without a set around it."""

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
def test_invalid_assignor_is_a_config_error(assignors, allowed):
    with pytest.raises(ConfigError, match=allowed) as caught:
        calling.usable(assignors)
    assert caught.value.option == "assignors"


def test_compatible_assignors_keep_their_order():
    assignors = [CooperativeStickyAssignor(), RangeAssignor()]
    assert calling.usable(assignors) == tuple(assignors)
    assert calling.usable(()) == ()
