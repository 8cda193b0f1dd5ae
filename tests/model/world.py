"""The whole model: clients, brokers, the network between them, one clock, and the invariants of the group."""

from __future__ import annotations

import functools
import itertools
import random
from collections.abc import Callable, Collection, Mapping, Set
from typing import Any

from sarameya.embedded.groups.config import CoordinatorConfig
from sarameya.embedded.groups.model.classic_group import ClassicGroup, ClassicGroupMember
from sarameya.embedded.groups.model.group_states import GroupState
from sarameya.embedded.groups.model.messages import CommitRequest
from sarameya.errors import FencedInstanceError, KafkaError
from sarameya.model import TopicPartition, topic_partitions
from sarameya.protocol.assignors.base import TopicLayout
from sarameya.protocol.membership.states import SILENT, State
from sarameya.protocol.rebalance import decode_assignment
from tests.model.brokers import Brokers
from tests.model.client import Action, Client
from tests.model.environment import Timing
from tests.model.network import Connection
from tests.model.scheduler import Scheduler


class World:
    """A group and all its participants. `clients` are the processes that have not ended."""

    def __init__(
        self,
        topics: Mapping[str, int],
        config: CoordinatorConfig | None = None,
        timing: Timing | None = None,
        seed: int = 0,
    ) -> None:
        self.scheduler = Scheduler()
        self._seed = seed
        self.timing = timing or Timing()
        self.brokers = Brokers(
            self.scheduler, random.Random(seed), config or CoordinatorConfig(), dict(topics), self._check_commit
        )
        self.started: list[Client] = []
        self.returning = 0
        self._excused: set[Client] = set()
        self.commits = self.steps = 0

    @property
    def now(self) -> float:
        return self.scheduler.now

    @property
    def clients(self) -> list[Client]:
        return [client for client in self.started if not client.is_over]

    # -- what clients see (`Surroundings`) -----------------------------------------------------------

    def connect(self, name: str, number: int, node_id: int, do: Callable[[Action], None]) -> Connection | None:
        if not self.brokers.nodes[node_id].is_up:
            return None
        # A random source for each connection: with one for all, a step that Hypothesis leaves out changes later ones.
        latency = random.Random(f"{self._seed} {name} {number} {node_id}").uniform(0.001, 0.02)
        serve = functools.partial(self.brokers.serve, node_id)
        return Connection(self.scheduler, latency, serve, do)

    def layouts(self) -> Mapping[str, TopicLayout]:
        return self.brokers.layouts()

    # -- events --------------------------------------------------------------------------------------

    def start(self, **options: Any) -> Client:
        client = Client(self, f"c{len(self.started)}", **options)
        self.started.append(client)
        client.start()
        return client

    def start_again(self, client: Client, seconds: float) -> None:
        """Start a process with the options of `client` in `seconds` seconds."""
        self.returning += 1

        def start() -> None:
            self.returning -= 1
            self.start(
                topics=client.topics,
                assignors=[type(assignor)() for assignor in client.assignors],
                instance_id=client.instance_id,
                drain=client.session.drain,
                assigning=client.assigning,
                lag=client.lag,
            )

        self.scheduler.after(seconds, start)

    def stop_node(self, node_id: int, seconds: float) -> None:
        """Kill a broker: its connections break, and it starts again after `seconds`."""
        for client in self.clients:
            for connection in client.wire.connections(node_id):
                client.wire.break_off(connection, "the broker has ended")
        self.brokers.stop(node_id, seconds)

    def run(self, seconds: float) -> None:
        """Run all actions that are due within `seconds`, and set the clock to the end of that time."""
        until = self.now + seconds
        while (deadline := self._next_deadline()) is not None and deadline <= until:
            self.step(deadline)
        self.scheduler.now = until

    def step(self, deadline: float) -> None:
        """Run the next action, which is due at `deadline`, and check the invariants."""
        self.steps += 1
        now = self.scheduler.now = max(self.now, deadline)
        if (first := self.scheduler.next_deadline()) is not None and first <= now:
            self.scheduler.take()
        elif (first := self.brokers.next_deadline()) is not None and first <= now:
            self.brokers.handle_timer()
        else:
            for client in self.clients:
                if (first := client.next_deadline()) is not None and first <= now:
                    client.handle_timer()
        self.check()

    def take_steps(self, number: int) -> None:
        """Run the next `number` actions."""
        for _ in range(number):
            if (deadline := self._next_deadline()) is not None:
                self.step(deadline)

    def _next_deadline(self) -> float | None:
        deadlines = [self.scheduler.next_deadline(), self.brokers.next_deadline()]
        deadlines += [client.next_deadline() for client in self.clients]
        return min((deadline for deadline in deadlines if deadline is not None), default=None)

    # -- invariants ----------------------------------------------------------------------------------

    def check(self) -> None:
        self._check_owners()
        self._check_deadlines()
        self._check_failures()

    def _check_owners(self) -> None:
        """Check that no partition has two owners in one generation, or two that the coordinator counts as members."""
        group = self.brokers.group
        for one, other in itertools.combinations(self.clients, 2):
            if one.owned and other.owned and (both := owns(one) & owns(other)):
                same_instance = one.instance_id is not None and one.instance_id == other.instance_id
                same_generation = _id(one) == _id(other) and not same_instance
                assert not same_generation, f"{one} and {other} own {sorted(both)} in one generation"
                both_count = group is not None and counts(group, one) and counts(group, other)
                assert not both_count, f"{one} and {other} own {sorted(both)}, and both are members"

    def _check_commit(self, request: CommitRequest, group: ClassicGroup) -> None:
        """Check that an accepted commit is from the current generation and from the assigned member."""
        self.commits += 1
        assert request.generation == group.generation
        assert request.member_id in group.members
        for member in group.members.values():
            stolen = set(assigned(member)) & request.offsets.keys()
            assert member.member_id == request.member_id or not stolen, (
                f"{request.member_id} has committed {sorted(stolen)}, assigned to {member.member_id}"
            )

    def _check_deadlines(self) -> None:
        """Check that every live client, and the coordinator, waits for an event that will happen."""
        for client in self.clients:
            if client.is_frozen:
                continue
            machine = client.machine
            if machine.state in (State.UNJOINED, State.LOST, State.FENCED):
                assert machine.generation is None, f"{client} still has a generation"
            if machine.state in SILENT:
                assert client.session.revocation is not None or client.notices, (
                    f"{client} sends nothing, and no event will wake it"
                )
            elif machine.next_deadline() is None:
                assert machine._exchanges.awaited & client.outstanding, f"{client} waits for nothing"
            if machine.state is State.REVOKING:
                is_revoking = client.session.revocation is not None or client.notices
                assert is_revoking, f"{client} has to revoke partitions, and does not"
        group = self.brokers.group
        if group is not None and group.members:
            assert self.brokers.next_deadline() is not None, "the coordinator waits for nothing"

    def _check_failures(self) -> None:
        """Check that each failed client has a reason to fail."""
        for client in self.started:
            if client.error is not None and client not in self._excused:
                assert self._is_excused(client), f"{client} has failed: {client.error!r}"
                self._excused.add(client)

    def _is_excused(self, client: Client) -> bool:
        match client.error:
            case FencedInstanceError():
                others = [c for c in self.started if c is not client and c.instance_id == client.instance_id]
                if any(other.over_at > client.started_at for other in others):
                    return True
                # A static member that returned during a rebalance is not in the log yet. A coordinator that takes over
                # then finds the member id of its previous process (in Kafka too).
                return client.failed_as in client.ids and self.brokers.moved_at > client.started_at
            case KafkaError(code=code):
                return code in self.brokers.fatal
        return client.assignor_fails

    # -- after the faults ----------------------------------------------------------------------------

    def heal(self) -> None:
        """End all faults. Their consequences continue."""
        self.brokers.faked.clear()
        for client in self.clients:
            client.assignor_fails = False
            for connection in client.wire.connections():
                if connection.is_faulty:
                    client.wire.break_off(connection, "reset by peer")
            client.thaw()

    def is_settled(self) -> bool:
        """Return whether every live client is stable in the group's generation, and each partition has one owner."""
        group, clients = self.brokers.group, self.clients
        if self.returning:
            return False
        if not clients:
            return group is None or not group.members
        if group is None or group.state is not GroupState.STABLE:
            return False
        if any(c.machine.state is not State.STABLE or c.session.revocation is not None or c.notices for c in clients):
            return False
        if {c.machine.member_id for c in clients} != set(group.members):
            return False
        if any(_id(c) != group.generation or None in c.owned.values() for c in clients):
            return False
        if any(sorted(c.owned) != assigned(group.members[c.machine.member_id]) for c in clients):
            return False
        owned = sorted(tp for client in clients for tp in client.owned)
        if any(c.leader.supervises_only for c in clients if c.machine.member_id == group.leader):
            return True
        return owned == sorted(self.brokers.partitions({t for c in clients for t in c.topics}))

    def settle(self, within: float) -> float:
        """Run until the group is settled, and return how long that took. Fails if it takes longer than `within`.

        It is settled if it stays so for a session timeout: by then the coordinator has removed silent members.
        """
        began = self.now
        while True:
            assert self.now - began < within, f"not settled after {within:g} s: {self.clients}, {describe(self)}"
            if self.is_settled():
                settled, generation = self.now, self._generation
                self.run(self.timing.session_timeout + 1.0)
                if self.is_settled() and self._generation == generation:
                    return settled - began
            else:
                self.run(0.25)

    @property
    def _generation(self) -> int | None:
        return self.brokers.group.generation if self.brokers.group is not None else None


def _id(client: Client) -> int | None:
    return client.generation.id if client.generation is not None else None


def assigned(member: ClassicGroupMember) -> list[TopicPartition]:
    """Return the member's assignment, as the coordinator stores it."""
    return topic_partitions(decode_assignment(member.assignment)[0])


def counts(group: ClassicGroup, client: Client) -> bool:
    """Return whether this process is a member for the coordinator, and knows the current generation.

    A static member may miss a rebalance (only its session timeout counts, KIP-345). Meanwhile others may own its
    partitions.
    """
    if client.machine.member_id not in group.members:
        return False
    return client.instance_id is None or _id(client) == group.generation


def owns(client: Client) -> Set[TopicPartition]:
    """Return the partitions that others may not own.

    Those that a static member revokes do not count, since it may have missed the rebalance.
    """
    revocation = client.session.revocation if client.instance_id is not None else None
    return client.owned.keys() - (revocation.partitions if revocation is not None else set())


def describe(world: World) -> str:
    group = world.brokers.group
    if group is None:
        return f"no group (coordinator {world.brokers.coordinator_id})"
    members: Collection[str] = group.members
    return f"{group.state.name} {group.generation}, members {list(members)}, pending {sorted(group.pending_members)}"
