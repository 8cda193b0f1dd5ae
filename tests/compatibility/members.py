"""Groups whose members join one by one. Some members are of this build, others replay an older build.

Members exchange bytes that the coordinator passes on unread: each member's subscription, and the leader's assignment
for each member. These bytes were recorded in each generation of a group of the old build: members a and b, and member
c, which joined after two partitions were added to the topic. An `OldMember` replays them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import AsyncExitStack
from typing import Any

import attrs
import trio
from kafka.protocol.consumer import HeartbeatRequest, JoinGroupRequest, SyncGroupRequest
from kafka.protocol.consumer.metadata import ConsumerProtocolAssignment, ConsumerProtocolSubscription

from sarameya import TopicPartition
from sarameya.embedded import EmbeddedCluster
from sarameya.error_codes import ErrorCode
from sarameya.observe import ClaimStarted
from tests.compatibility.kit import OFFSETS_TOPIC, records_of
from tests.embedded.api_kit import request
from tests.embedded.wire_client import WireClient, connected
from tests.group.kit import Recorder, Running, deadline, start_member

GROUP, TOPIC = "g", "orders"
NAMES = ("a", "b", "c")
STRATEGIES = ("range", "roundrobin", "sticky", "cooperative-sticky")
PARTITIONS, GROWN = 6, 8
_QUIET = 60.0
"""Virtual seconds after which a group is stable."""


@attrs.frozen
class Exchange:
    """The subscription that a member sent, and the assignment that it received from the leader."""

    subscription: bytes
    assignment: bytes


@attrs.frozen
class Round:
    """A generation of the group. `leader` and the keys of `members` are client names."""

    leader: str
    members: Mapping[str, Exchange]

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Round:
        members = {
            name: Exchange(bytes.fromhex(fields["subscription"]), bytes.fromhex(fields["assignment"]))
            for name, fields in document["members"].items()
        }
        return cls(document["leader"], members)

    def document(self) -> dict[str, Any]:
        members = {
            name: {"subscription": exchange.subscription.hex(), "assignment": exchange.assignment.hex()}
            for name, exchange in self.members.items()
        }
        return {"leader": self.leader, "members": members}

    @property
    def assignments(self) -> dict[str, list[tuple[str, int]]]:
        """Each member's partitions, decoded by kafka-python."""
        return {name: assigned(exchange.assignment) for name, exchange in self.members.items()}

    @property
    def subscriptions(self) -> dict[str, tuple[Any, ...]]:
        """The fields of each member's subscription that kafka-python can decode."""
        return {name: subscribed(exchange.subscription) for name, exchange in self.members.items()}


def assigned(data: bytes) -> list[tuple[str, int]]:
    rows = ConsumerProtocolAssignment.decode(data).assigned_partitions if data else []
    return sorted((row.topic, number) for row in rows for number in row.partitions)


def subscribed(data: bytes) -> tuple[Any, ...]:
    """Return topics, user data, owned partitions, generation and rack of an encoded subscription."""
    decoded = ConsumerProtocolSubscription.decode(data)
    owned = sorted((row.topic, number) for row in decoded.owned_partitions for number in row.partitions)
    return list(decoded.topics), decoded.user_data, owned, decoded.generation_id, decoded.rack_id


def rounds(cluster: EmbeddedCluster) -> list[Round]:
    """Return all generations of the group, from its records in `__consumer_offsets`."""
    partition = cluster._state.offsets_partition(GROUP).topic_partition
    records = records_of(cluster, OFFSETS_TOPIC, partition.partition)
    values = [record.value for record in records if record.key[1] == 2 and record.value]
    return [generation for generation in map(_round, values) if generation.members]


def _round(value: bytes) -> Round:
    """Decode a GroupMetadataValue v3. A member id starts with the client's name, which is one letter here."""
    fields = _Fields(value)
    assert fields.number(2) == 3
    fields.data(2), fields.number(4), fields.data(2)
    leader = fields.data(2).decode()[:1]
    fields.number(8)
    members: dict[str, Exchange] = {}
    for _ in range(fields.number(4)):
        name = fields.data(2).decode()[0]
        fields.data(2), fields.data(2), fields.data(2), fields.number(4), fields.number(4)
        members[name] = Exchange(fields.data(4), fields.data(4))
    return Round(leader, members)


@attrs.define
class _Fields:
    """A reader of bytes that removes each field from the front."""

    rest: bytes

    def number(self, size: int) -> int:
        """Return the next number, which has `size` bytes."""
        taken, self.rest = self.rest[:size], self.rest[size:]
        return int.from_bytes(taken, "big", signed=True)

    def data(self, size: int) -> bytes:
        """Return the next bytes, which follow their length of `size` bytes. A null gives empty bytes."""
        length = max(0, self.number(size))
        taken, self.rest = self.rest[:length], self.rest[length:]
        return taken


@attrs.define(eq=False)
class OldMember:
    """A member that replays the recorded bytes of the old build, join by join, with heartbeats in between."""

    name: str
    strategy: str
    recorded: Sequence[Round]
    client: WireClient
    member_id: str = ""
    generation: int = -1
    _wants_rebalance: bool = False

    def rejoin(self) -> None:
        """Start a rebalance, as a leader does when the topic has more partitions."""
        self._wants_rebalance = True

    async def run(self) -> None:
        """Replay all recorded generations of this member, and stay in the last.

        Raises:
            AssertionError: The group rebalances more often than recorded, or an answer has an error.
        """
        own = [generation for generation in self.recorded if self.name in generation.members]
        for generation in own:
            joined = await self._join(generation.members[self.name].subscription)
            assignments: list[dict[str, Any]] = []
            if joined.leader == self.member_id:
                assert generation.leader == self.name
                ids = {member.member_id[0]: member.member_id for member in joined.members}
                assert ids.keys() == generation.members.keys()
                assignments = [
                    {"member_id": ids[name], "assignment": exchange.assignment}
                    for name, exchange in generation.members.items()
                ]
            assignment = await self._sync(assignments)
            owned = subscribed(generation.members[self.name].subscription)[2]
            if set(owned) <= set(assigned(assignment)):
                await self._heartbeat()
            else:
                await trio.sleep(1)  # a revoked partition: the member rejoins by itself (KIP-429)
        raise AssertionError(f"{self.name}: the group rebalances again, but no further generation was recorded")

    async def _join(self, subscription: bytes) -> Any:
        for _ in range(2):
            answer = await self.client.ask(
                request(
                    JoinGroupRequest,
                    9,
                    group_id=GROUP,
                    session_timeout_ms=10_000,
                    rebalance_timeout_ms=60_000,
                    member_id=self.member_id,
                    group_instance_id=None,
                    protocol_type="consumer",
                    protocols=[{"name": self.strategy, "metadata": subscription}],
                    reason="",
                )
            )
            self.member_id, self.generation = answer.member_id, answer.generation_id
            if answer.error_code != ErrorCode.MEMBER_ID_REQUIRED:
                break
        assert answer.error_code == ErrorCode.NONE
        return answer

    async def _sync(self, assignments: Sequence[Mapping[str, Any]]) -> bytes:
        answer = await self.client.ask(
            request(
                SyncGroupRequest,
                5,
                group_id=GROUP,
                generation_id=self.generation,
                member_id=self.member_id,
                protocol_type="consumer",
                protocol_name=self.strategy,
                assignments=list(assignments),
            )
        )
        assert answer.error_code == ErrorCode.NONE
        return bytes(answer.assignment)

    async def _heartbeat(self) -> None:
        """Send heartbeats until the group rebalances, or `rejoin` is called."""
        while not self._wants_rebalance:
            await trio.sleep(1)
            beat = request(HeartbeatRequest, 4, group_id=GROUP, generation_id=self.generation, member_id=self.member_id)
            code = (await self.client.ask(beat)).error_code
            if code == ErrorCode.REBALANCE_IN_PROGRESS:
                return
            assert code == ErrorCode.NONE
        self._wants_rebalance = False


@attrs.define(eq=False)
class Outcome:
    """The generations of a group, and its members of this build."""

    rounds: list[Round]
    handlers: dict[str, Recorder] = attrs.field(factory=dict)
    members: dict[str, Running] = attrs.field(factory=dict)

    def started(self, name: str) -> dict[TopicPartition, ClaimStarted]:
        """Return the last start of each partition that a member of this build has read."""
        return {event.partition: event for event in self.members[name].seen(ClaimStarted)}


async def play(strategy: str, new: Collection[str] = NAMES, recorded: Sequence[Round] = ()) -> Outcome:
    """Start members a and b, add partitions, and start member c.

    Args:
        strategy: the rebalance strategy of all members.
        new: the members of this build; the other members replay the old build.
        recorded: the recorded generations, if any member is old.
    """
    cluster = EmbeddedCluster(topics={TOPIC: PARTITIONS}, in_memory=True, seed=1)
    outcome = Outcome([])
    old: dict[str, OldMember] = {}
    async with cluster, AsyncExitStack() as stack, deadline() as nursery:

        async def start(name: str) -> None:
            if name in new:
                handler = outcome.handlers[name] = Recorder()
                outcome.members[name] = await start_member(
                    nursery,
                    cluster,
                    handler,
                    client_id=name,
                    rebalance_strategies=(strategy,),
                    offset_initial="newest",
                    metadata_max_age=5.0,
                )
            else:
                client = await stack.enter_async_context(connected(cluster, client_id=name))
                old[name] = OldMember(name, strategy, recorded, client)
                nursery.start_soon(old[name].run)
            await trio.sleep(_QUIET)

        for partition in range(PARTITIONS):
            cluster.produce(TOPIC, partition, b"before")
        await start("a")
        await start("b")
        cluster.add_partitions(TOPIC, GROWN)
        for partition in range(PARTITIONS, GROWN):
            cluster.produce(TOPIC, partition, b"into what is new")
        if "a" in old:
            old["a"].rejoin()
        await trio.sleep(_QUIET)
        await start("c")
        outcome.rounds = rounds(cluster)
        nursery.cancel_scope.cancel()
    return outcome


def topic_partitions(rows: Collection[tuple[str, int]]) -> set[TopicPartition]:
    return {TopicPartition(topic, number) for topic, number in rows}
