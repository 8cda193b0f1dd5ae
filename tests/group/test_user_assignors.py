"""A user's assignor in a group: its calls and their arguments, its failures, and racks."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from sarameya import (
    Assignment,
    Assignor,
    AssignorError,
    Config,
    ConfigError,
    ConsumerGroup,
    CooperativeStickyAssignor,
    RangeAssignor,
    RebalanceProtocol,
    RoundRobinAssignor,
    StickyAssignor,
    Subscription,
    TopicLayout,
)
from sarameya.embedded import CoordinatorConfig, EmbeddedCluster
from tests.group.kit import (
    OwnAssignor,
    Recorder,
    Running,
    committed,
    deadline,
    eventually,
    fill,
    orders,
    start_member,
)

HOOKS = ("assign", "subscription_user_data", "assignment_user_data", "on_assignment")


class Watched(CooperativeStickyAssignor):
    """An assignor that keeps its arguments. It is eager by default."""

    name = "watched"

    def __init__(self, protocol: RebalanceProtocol = RebalanceProtocol.EAGER, own_data: bytes | None = None) -> None:
        super().__init__()
        self.protocols = frozenset({protocol})  # type: ignore[misc]
        self.own_data = own_data
        self.members: Mapping[str, Subscription] = {}
        self.topics: Mapping[str, TopicLayout] = {}
        self.received: list[tuple[Assignment, bytes | None, int]] = []

    def assign(self, members: Mapping[str, Subscription], topics: Mapping[str, TopicLayout]) -> dict[str, Assignment]:
        self.members, self.topics = members, topics
        return super().assign(members, topics)

    def subscription_user_data(self) -> bytes | None:  # type: ignore[override]
        return self.own_data

    def assignment_user_data(self, member_id: str, assignment: Assignment) -> bytes | None:
        return b"to " + member_id.encode()

    def on_assignment(self, assignment: Assignment, user_data: bytes | None, generation: int) -> None:
        self.received.append((assignment, user_data, generation))


class Failing(Watched):
    """An assignor whose method `hook` raises while `fails` is true."""

    def __init__(self, hook: str, *, fails: bool = True, protocol: RebalanceProtocol = RebalanceProtocol.EAGER) -> None:
        super().__init__(protocol)
        self.fails = fails
        original = getattr(self, hook)

        def fail(*args: Any) -> Any:
            if self.fails:
                raise LookupError("no weight is known")
            return original(*args)

        setattr(self, hook, fail)


class FixedAssignor(OwnAssignor):
    """An assignor that gives each member, in order of ids, one of the given assignments."""

    def __init__(self, *assignments: Assignment) -> None:
        super().__init__()
        self._assignments = assignments

    def assign(self, members: Mapping[str, Subscription], topics: Mapping[str, TopicLayout]) -> dict[str, Assignment]:
        return dict(zip(sorted(members), self._assignments, strict=True))


def assignor_error(member: Running) -> AssignorError:
    """Return the error of `consume`, which must not be wrapped."""
    assert isinstance(member.error, AssignorError), repr(member.error)
    return member.error


# -- the user data and assignments that it receives --------------------------------------------------


@pytest.mark.parametrize("protocol", RebalanceProtocol)
async def test_members_get_each_assignment_with_its_user_data(
    autojump_clock: MockClock, protocol: RebalanceProtocol
) -> None:
    async with orders(4) as cluster, deadline() as nursery:
        handlers, assignors = [Recorder(), Recorder()], [Watched(protocol), Watched(protocol)]
        for handler, assignor in zip(handlers, assignors, strict=True):
            await start_member(nursery, cluster, handler, assignors=[assignor])
            await handler.until(lambda: bool(handler.sessions))  # noqa: B023
        await eventually(lambda: all(sum(map(len, h.sessions[-1].claims.values())) == 2 for h in handlers))
        for handler, assignor in zip(handlers, assignors, strict=True):
            session = handler.sessions[-1]
            assert assignor.received[-1] == (session.claims, b"to " + session.member_id.encode(), session.generation)
            generations = [generation for _, _, generation in assignor.received]
            assert generations == sorted(set(generations)), "once per generation"
        first = handlers[0].sessions[0]
        assert assignors[0].received[0] == ({"orders": (0, 1, 2, 3)}, b"to " + first.member_id.encode(), 1)


async def test_leader_gets_user_data_and_rack_of_each_member(autojump_clock: MockClock) -> None:
    async with orders(4) as cluster, deadline() as nursery:
        assignors = [Watched(own_data=b"1"), Watched(own_data=b"3")]
        for assignor, options in zip(assignors, ({"rack_id": "a"}, {"group_instance_id": "two"}), strict=True):
            await start_member(nursery, cluster, Recorder(), assignors=[assignor], **options)
        await eventually(lambda: any(len(assignor.members) == 2 for assignor in assignors))
        (leader,) = (assignor for assignor in assignors if len(assignor.members) == 2)
        by_data = {member.user_data: member for member in leader.members.values()}
        assert by_data.keys() == {b"1", b"3"}
        assert (by_data[b"1"].rack_id, by_data[b"1"].group_instance_id) == ("a", None)
        assert (by_data[b"3"].rack_id, by_data[b"3"].group_instance_id) == ("", "two")
        assert by_data[b"1"].topics == by_data[b"3"].topics == ("orders",)
        assert leader.topics == {"orders": TopicLayout(4)}


@pytest.mark.parametrize("own_data", [None, b"", b"its own"])
async def test_assignment_user_data_comes_from_the_assignor(autojump_clock: MockClock, own_data: bytes | None) -> None:
    async with orders(1) as cluster, deadline() as nursery:
        one, assignor = Recorder(), OwnAssignor(own_data)
        await start_member(nursery, cluster, one, assignors=[assignor], metadata_max_age=60.0)
        await one.until(lambda: bool(one.sessions))
        cluster.add_partitions("orders", 2)
        await eventually(lambda: one.sessions[-1].claims == {"orders": (0, 1)})
        assert [user_data for _, user_data, _ in assignor.received] == [own_data, own_data]


# -- failures -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("hook", HOOKS)
async def test_raising_assignor_ends_consume_and_is_named(autojump_clock: MockClock, hook: str) -> None:
    async with orders(1) as cluster, deadline() as nursery:
        member = await start_member(nursery, cluster, Recorder(), assignors=[Failing(hook)])
        await member.ended.wait()
        error = assignor_error(member)
        assert error.assignor == "watched"
        assert f"{hook}()" in str(error)
        assert "LookupError: no weight is known" in str(error)
        assert isinstance(error.__cause__, LookupError)
        assert trio.current_time() < 30, "nothing is retried"
        assert cluster.describe_group("g").members == (), "it has left"


class Endless(RangeAssignor):
    name = "endless"

    def __init__(self) -> None:
        self.has_started = threading.Event()
        self.may_end = threading.Event()

    def assign(self, members: Mapping[str, Subscription], topics: Mapping[str, TopicLayout]) -> dict[str, Assignment]:
        self.has_started.set()
        self.may_end.wait(20.0)
        return super().assign(members, topics)


async def test_assignor_that_does_not_return_does_not_block_close() -> None:
    assignor, config = Endless(), Config(close_timeout=1.0)
    async with orders() as cluster, trio.open_nursery() as nursery:
        began = trio.current_time()
        async with ConsumerGroup(
            cluster.bootstrap_servers, "g", config, transport=cluster.transport, assignors=[assignor]
        ) as group:
            nursery.start_soon(partial(group.consume, ["orders"], handler=Recorder()))
            while not assignor.has_started.is_set():
                await trio.sleep(0.01)
        assert trio.current_time() - began < 15.0
        assignor.may_end.set()


@pytest.mark.parametrize("hook", HOOKS)
@pytest.mark.parametrize("protocol", RebalanceProtocol)
async def test_assignor_raising_later_ends_only_its_member(
    autojump_clock: MockClock, hook: str, protocol: RebalanceProtocol
) -> None:
    async with orders(2) as cluster, deadline() as nursery:
        one, two = Recorder(), Recorder()
        failing = Failing(hook, fails=False, protocol=protocol)
        first = await start_member(nursery, cluster, one, assignors=[failing])
        fill(cluster, 3)
        await one.received(3)
        failing.fails = True
        healthy = Failing(hook, fails=False, protocol=protocol)
        second = await start_member(nursery, cluster, two, assignors=[healthy])
        await first.ended.wait()
        assert hook in str(assignor_error(first))
        assert one.calls[-1] == "cleanup"
        assert committed(cluster)["orders-0"] == 3
        fill(cluster, 3, 1)
        await two.received(3)
        assert second.error is None


@pytest.mark.parametrize(
    ("assignments", "problem"),
    [
        (({"orders": (0, 1)}, {"orders": (1,)}), "orders-1"),
        (({"orders": (0, 7)}, {}), "orders-7"),
        (({"returns": (0,)}, {}), "returns-0"),
    ],
)
async def test_invalid_assignment_is_given_to_no_member(
    autojump_clock: MockClock, assignments: tuple[Assignment, ...], problem: str
) -> None:
    together = CoordinatorConfig(initial_rebalance_delay=3.0)
    topics = {"orders": 2, "returns": 1}
    async with EmbeddedCluster(topics, groups=together, in_memory=True, seed=1) as cluster, deadline() as nursery:
        handlers = [Recorder(), Recorder()]
        members = [
            await start_member(nursery, cluster, handler, assignors=[FixedAssignor(*assignments)])
            for handler in handlers
        ]
        for member in members:
            await member.ended.wait()
        # The first leader leaves because of it. Then the other member is alone, and its assignor assigns to two.
        first, last = sorted((str(assignor_error(member)) for member in members), key=lambda text: "zip()" in text)
        assert problem in first
        assert "zip()" in last
        assert all(handler.calls == [] for handler in handlers)


async def test_owned_partition_is_not_assigned_to_another_member(
    autojump_clock: MockClock,
) -> None:
    class Hasty(OwnAssignor):
        """An assignor that gives owned partitions to other members at once."""

        protocols = frozenset({RebalanceProtocol.COOPERATIVE})

    async with orders(2) as cluster, deadline() as nursery:
        one, two = Recorder(), Recorder()
        first = await start_member(nursery, cluster, one, assignors=[Hasty()])
        await one.until(lambda: bool(one.sessions))
        await start_member(nursery, cluster, two, assignors=[Hasty()])
        await first.ended.wait()
        assert "KIP-429" in str(assignor_error(first))
        await two.until(lambda: bool(two.sessions))
        assert two.sessions[0].claims == {"orders": (0, 1)}, "nothing before the first has left"


# -- invalid assignors --------------------------------------------------------------------------------


@pytest.mark.parametrize("assignors", [[OwnAssignor], [object()], OwnAssignor(), [OwnAssignor(), OwnAssignor()]])
def test_invalid_assignor_is_a_config_error(assignors: Any) -> None:
    with pytest.raises(ConfigError, match="assignors"):
        ConsumerGroup("localhost:9092", "g", Config(), assignors=assignors)


# -- racks (KIP-881) ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "make_assignor", [RangeAssignor, StickyAssignor, CooperativeStickyAssignor, partial(Watched, own_data=None)]
)
async def test_partitions_go_to_members_in_the_rack_of_a_replica(
    autojump_clock: MockClock, make_assignor: Callable[[], Assignor]
) -> None:
    racks = EmbeddedCluster(
        {"orders": 4}, brokers=2, racks={0: "a", 1: "b"}, replication_factor=1, in_memory=True, seed=1
    )
    async with racks as cluster, deadline() as nursery:
        there, here = Recorder(), Recorder()
        await start_member(nursery, cluster, there, assignors=[make_assignor()], rack_id="b")
        await start_member(nursery, cluster, here, assignors=[make_assignor()], rack_id="a")
        await eventually(lambda: all(recorder.sessions for recorder in (there, here)))
        await eventually(lambda: here.sessions[-1].claims == {"orders": (0, 2)})
        assert there.sessions[-1].claims == {"orders": (1, 3)}


async def test_assignor_that_ignores_racks_assigns_as_usual(autojump_clock: MockClock) -> None:
    racks = EmbeddedCluster(
        {"orders": 2}, brokers=2, racks={0: "a", 1: "b"}, replication_factor=1, in_memory=True, seed=1
    )
    async with racks as cluster, deadline() as nursery:
        one = Recorder()
        await start_member(nursery, cluster, one, assignors=[RoundRobinAssignor()], rack_id="b")
        await one.until(lambda: {"claim orders-0", "claim orders-1"} <= set(one.calls))
        assert one.sessions[-1].claims == {"orders": (0, 1)}
