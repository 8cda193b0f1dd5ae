"""Client machine against coordinator machine, both pure, with lost, late and repeated responses.

`World` checks the invariants after each event. This module has the events, and the checks at the end: when faults stop,
the group settles in a stated time, stays settled, and members that want to leave then do so soon.

The ordinary run is short, and always the same. `SARAMEYA_SOAK=40` runs forty times as many examples, new ones
(`make soak`). A failure prints the steps that led to it and a `@reproduce_failure` line that replays them exactly.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable
from typing import Any, cast

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from sarameya.embedded.groups.config import CoordinatorConfig
from sarameya.embedded.groups.model.messages import (
    CommitRequest,
    HeartbeatRequest,
    JoinRequest,
    LeaveRequest,
    SyncRequest,
)
from sarameya.error_codes import ErrorCode
from sarameya.protocol.assignors import (
    Assignor,
    CooperativeStickyAssignor,
    RangeAssignor,
    RoundRobinAssignor,
    StickyAssignor,
)
from sarameya.protocol.membership.messages import RebalanceWanted
from tests.model.brokers import FakedCode, FetchRequest, FindRequest
from tests.model.client import Client
from tests.model.environment import Timing
from tests.model.network import Connection
from tests.model.world import World, describe

EXAMPLES = 250
STEPS = 50
SOAK = int(os.environ.get("SARAMEYA_SOAK", "1"))

STYLES: dict[str, list[list[type[Assignor]]]] = {
    "eager": [[RangeAssignor, RoundRobinAssignor], [RoundRobinAssignor, RangeAssignor]],
    "sticky": [[StickyAssignor]],
    "cooperative": [[CooperativeStickyAssignor]],
    # A rolling upgrade from eager to cooperative assignors (KIP-429).
    "mixed": [[CooperativeStickyAssignor], [CooperativeStickyAssignor, RangeAssignor]],
}

STATIC = {"i1": ("t",), "i2": ("t", "u")}
"""Instance id -> the topics that its member subscribes to."""

MAX_CLIENTS = 6
"""The largest number of live clients."""

Indexes = st.integers(0, MAX_CLIENTS - 1)
Seconds = st.sampled_from([0.5, 2.0, 5.0, 12.0, 30.0])
Restarts = st.sampled_from([None, 0.0, 2.0, 8.0])
Waits = st.sampled_from([0.0, 0.02, 0.3, 1.0, 4.0])

Topics = st.sampled_from([("t",), ("t", "u"), ("u",)])

Spec = st.fixed_dictionaries(
    {
        "assignors": st.integers(0, 5),
        "instance_id": st.sampled_from([None, None, None, "i1", "i2"]),
        "topics": Topics,
        "drain": st.sampled_from([0.0, 0.5, 4.0, 15.0]),
        "assigning": st.sampled_from([0.0, 1.0, 5.0]),
        "lag": st.sampled_from([0.0, 0.003]),
    }
)

RETRIABLE = [
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.REQUEST_TIMED_OUT,
]
OF_MEMBERSHIP = [ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION, ErrorCode.REBALANCE_IN_PROGRESS]
FATAL = [ErrorCode.GROUP_AUTHORIZATION_FAILED, 999]

Fakes = st.one_of(
    st.builds(
        FakedCode,
        st.sampled_from([JoinRequest, SyncRequest, HeartbeatRequest, LeaveRequest, CommitRequest]),
        st.sampled_from(3 * (RETRIABLE + OF_MEMBERSHIP) + FATAL),
        st.booleans(),
    ),
    st.builds(FakedCode, st.sampled_from([FindRequest, FetchRequest]), st.sampled_from(RETRIABLE), st.just(False)),
    st.builds(FakedCode, st.just(FindRequest), st.just(ErrorCode.GROUP_AUTHORIZATION_FAILED), st.just(False)),
)


Step = Callable[..., None]


def step(**strategies: Any) -> Callable[[Step], Step]:
    """Return a decorator that makes a rule, after which some time passes, or none."""

    def as_rule(what: Step) -> Step:
        @functools.wraps(what)
        def happens(self: GroupModel, wait: float, **drawn: Any) -> None:
            what(self, **drawn)
            self.world.run(wait)

        return cast(Step, rule(wait=Waits, **strategies)(happens))

    return as_rule


class GroupModel(RuleBasedStateMachine):
    """Events that may happen to a group."""

    def __init__(self) -> None:
        super().__init__()
        self.world = World({"t": 4})
        self.style = STYLES["eager"]

    @initialize(
        style=st.sampled_from(sorted(STYLES)),
        partitions=st.tuples(st.integers(1, 7), st.integers(0, 3)),
        rebalance_timeout=st.sampled_from([20.0, 8.0]),
        session_timeout=st.sampled_from([6.0, 12.0]),
        delay=st.sampled_from([0.0, 3.0]),
        seed=st.integers(0, 2**16),
        clients=st.lists(Spec, min_size=2, max_size=4),
    )
    def begin(
        self,
        style: str,
        partitions: tuple[int, int],
        rebalance_timeout: float,
        session_timeout: float,
        delay: float,
        seed: int,
        clients: list[dict[str, Any]],
    ) -> None:
        self.style = STYLES[style]
        self.world = World(
            {"t": partitions[0], "u": partitions[1]},
            CoordinatorConfig(initial_rebalance_delay=delay),
            Timing(session_timeout=session_timeout, rebalance_timeout=rebalance_timeout),
            seed,
        )
        for spec in clients:
            self.start(wait=0.0, spec=spec)

    def client(self, index: int) -> Client | None:
        """Return a live client; None if there is none."""
        clients = self.world.clients
        return clients[index % len(clients)] if clients else None

    # -- start and end of clients -------------------------------------------------------------------------

    @precondition(lambda self: len(self.world.clients) < MAX_CLIENTS)
    @step(spec=Spec)
    def start(self, spec: dict[str, Any]) -> None:
        classes = self.style[spec["assignors"] % len(self.style)]
        # A static member returns with the same topics: with others, the group would not be assigned again (KIP-345).
        topics = STATIC.get(spec["instance_id"], spec["topics"])
        self.world.start(**spec | {"topics": topics, "assignors": [assignor() for assignor in classes]})

    @step(which_client=Indexes, restarts=Restarts)
    def close(self, which_client: int, restarts: float | None) -> None:
        if (client := self.client(which_client)) is not None:
            client.do(client.close)
            self.restart(client, restarts)

    @step(which_client=Indexes, restarts=Restarts)
    def crash(self, which_client: int, restarts: float | None) -> None:
        if (client := self.client(which_client)) is not None:
            client.crash()
            self.restart(client, restarts)

    def restart(self, client: Client, seconds: float | None) -> None:
        """Start a client again after `seconds`, maybe before it has ended. None: never."""
        if seconds is not None:
            self.world.start_again(client, seconds)

    @step(which_client=Indexes, seconds=Seconds)
    def freeze(self, which_client: int, seconds: float) -> None:
        if (client := self.client(which_client)) is not None:
            client.freeze()
            self.world.scheduler.after(seconds, client.thaw)

    # -- actions of clients ---------------------------------------------------------------------------

    @step(which_client=Indexes)
    def claim_returns(self, which_client: int) -> None:
        if (client := self.client(which_client)) is not None:
            client.do(client.claim_returns)

    @step(which_client=Indexes, topics=Topics)
    def subscribe(self, which_client: int, topics: tuple[str, ...]) -> None:
        client = self.client(which_client)
        if client is not None and client.instance_id is None:
            client.do(lambda: client.subscribe(topics))

    @step(which_client=Indexes)
    def user_requests_a_rebalance(self, which_client: int) -> None:
        if (client := self.client(which_client)) is not None:
            client.post(RebalanceWanted("the user wants it"))

    @step(which_client=Indexes)
    def commit(self, which_client: int) -> None:
        if (client := self.client(which_client)) is not None:
            client.do(client.session.work)

    @step(topic=st.sampled_from(["t", "u"]))
    def add_a_partition(self, topic: str) -> None:
        self.world.brokers.topics[topic] += 1

    # -- faults --------------------------------------------------------------------------------------

    def connection(self, which_client: int, which: int) -> tuple[Client, Connection] | None:
        client = self.client(which_client)
        if client is None:
            return None
        connections = client.wire.connections()
        return (client, connections[which % len(connections)]) if connections else None

    @step(which_client=Indexes, which=st.integers(0, 5))
    def connection_breaks(self, which_client: int, which: int) -> None:
        if (found := self.connection(which_client, which)) is not None:
            client, connection = found
            client.wire.break_off(connection, "reset by peer")

    @step(which_client=Indexes, which=st.integers(0, 5))
    def connection_drops_everything(self, which_client: int, which: int) -> None:
        if (found := self.connection(which_client, which)) is not None:
            found[1].cut()

    @step(which_client=Indexes, which=st.integers(0, 5), seconds=Seconds, answers=st.booleans())
    def connection_stalls(self, which_client: int, which: int, seconds: float, answers: bool) -> None:
        if (found := self.connection(which_client, which)) is not None:
            (found[1].stall_answers if answers else found[1].stall_requests)(seconds)

    @step(which_client=Indexes, which=st.integers(0, 11))
    def response_is_repeated(self, which_client: int, which: int) -> None:
        client = self.client(which_client)
        if client is not None and client.past:
            client.post(client.past[which % len(client.past)])

    @step(fake=Fakes)
    def response_is_faked(self, fake: FakedCode) -> None:
        self.world.brokers.faked.append(fake)

    @step(which_client=Indexes)
    def assignor_fails(self, which_client: int) -> None:
        if (client := self.client(which_client)) is not None:
            client.assignor_fails = True

    @step(gap=st.sampled_from([0.0, 0.5, 8.0]), loading=st.sampled_from([0.0, 0.5, 8.0]))
    def coordinator_moves(self, gap: float, loading: float) -> None:
        self.world.brokers.move(gap, loading)

    @step(node_id=st.integers(0, 1), seconds=Seconds)
    def broker_is_killed(self, node_id: int, seconds: float) -> None:
        if self.world.brokers.nodes[node_id].is_up:
            self.world.stop_node(node_id, seconds)

    # -- time ----------------------------------------------------------------------------------------

    @rule(number=st.integers(1, 40))
    def steps_happen(self, number: int) -> None:
        self.world.take_steps(number)

    @rule(seconds=st.sampled_from([0.05, 0.5, 2.0, 6.5, 25.0]))
    def time_passes(self, seconds: float) -> None:
        self.world.run(seconds)

    # -- the end ------------------------------------------------------------------------------

    def teardown(self) -> None:
        if sys.exc_info()[0] is not None:
            return  # it has failed already
        world, timing = self.world, self.world.timing
        world.heal()
        if not world.clients:
            self.world.start(topics=("t",), assignors=[assignor() for assignor in self.style[0]])
        world.settle(within=settling_time(timing))
        self._one_joins()
        self._all_leave()

    def _one_joins(self) -> None:
        """Let a client join: no member is lost, and a cooperative member never revokes a partition that it keeps."""
        world = self.world
        before = {client: set(client.owned) for client in world.clients}
        losses = {client: client.session.losses for client in before}
        for client in before:
            # Draining takes longer than the session timeout, and no commit shows that the member lives.
            client.session.drain, client.session.is_idle = 1.5 * world.timing.session_timeout, True
        never_revoked = {client: set(owned) for client, owned in before.items()}
        world.start(topics=("t",), assignors=[assignor() for assignor in self.style[0]])
        # Three rebalances at most: the first, one for partitions that move, and one more with eager members.
        until = world.now + 3 * (world.timing.rebalance_timeout + world.timing.join_margin)
        while not world.is_settled() and world.now < until:
            world.run(0.05)
            for client, owned in never_revoked.items():
                owned &= client.owned.keys()
        assert world.is_settled(), f"a client has joined: {world.clients}, {describe(world)}"
        assert losses == {client: client.session.losses for client in before}
        for client, owned in before.items():
            assert not client.session.is_cooperative or owned & client.owned.keys() <= never_revoked[client]

    def _all_leave(self) -> None:
        world = self.world
        clients = world.clients
        for client in clients:
            client.session.drain = 0.0
            client.close()
        world.run(LEAVING_TIME)
        assert [client for client in clients if not client.has_left] == []
        world.run(world.timing.session_timeout)  # the coordinator waits for static members
        assert world.is_settled(), "the group is not empty after all have left"


LEAVING_TIME = 2.0
"""Seconds from `close` to Left, without faults."""


def settling_time(timing: Timing) -> float:
    """Return the seconds in which a group settles after the last fault.

    A frozen or disconnected client returns, or its session ends, within a session timeout; its requests end within a
    request timeout. Then a rebalance may wait for missing members as long as a rejoin may take, and so may the next.
    """
    end_of_faults = timing.session_timeout + timing.request_timeout
    return end_of_faults + 2 * (timing.rebalance_timeout + timing.join_margin)


TestGroupModel = GroupModel.TestCase
TestGroupModel.settings = settings(
    max_examples=EXAMPLES * SOAK,
    stateful_step_count=STEPS,
    report_multiple_bugs=False,
    phases=[Phase.generate, Phase.shrink],
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
)
