"""Groups whose members join one by one; some are of this build, some replay an older build.

What a member says to others goes through the coordinator, which does not read it: a subscription with each join, and an
assignment from the leader to each. Those bytes were recorded, generation by generation, of three members of the old
build: a, b, and, once the topic has two partitions more, c. An `OldMember` plays them back.
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
"""Virtual seconds after which a group has settled."""


@attrs.frozen
class Said:
    """The subscription that a member sent, and the assignment that the leader gave it."""

    subscription: bytes
    assignment: bytes


@attrs.frozen
class Round:
    """A generation. `leader` and `members` by the names of clients."""

    leader: str
    members: Mapping[str, Said]

    @classmethod
    def of(cls, told: Mapping[str, Any]) -> Round:
        members = {
            name: Said(bytes.fromhex(said["subscription"]), bytes.fromhex(said["assignment"]))
            for name, said in told["members"].items()
        }
        return cls(told["leader"], members)

    def document(self) -> dict[str, Any]:
        members = {
            name: {"subscription": said.subscription.hex(), "assignment": said.assignment.hex()}
            for name, said in self.members.items()
        }
        return {"leader": self.leader, "members": members}

    @property
    def assignments(self) -> dict[str, list[tuple[str, int]]]:
        """Each member's partitions, read by kafka-python."""
        return {name: assigned(said.assignment) for name, said in self.members.items()}

    @property
    def subscriptions(self) -> dict[str, tuple[Any, ...]]:
        """Each member's subscription, as far as older members know its fields, read by kafka-python."""
        return {name: subscribed(said.subscription) for name, said in self.members.items()}


def assigned(data: bytes) -> list[tuple[str, int]]:
    rows = ConsumerProtocolAssignment.decode(data).assigned_partitions if data else []
    return sorted((row.topic, number) for row in rows for number in row.partitions)


def subscribed(data: bytes) -> tuple[Any, ...]:
    told = ConsumerProtocolSubscription.decode(data)
    owned = sorted((row.topic, number) for row in told.owned_partitions for number in row.partitions)
    return list(told.topics), told.user_data, owned, told.generation_id, told.rack_id


def rounds(cluster: EmbeddedCluster) -> list[Round]:
    """The generations that the group has had, as its records in `__consumer_offsets` say."""
    partition = cluster._state.offsets_partition(GROUP).topic_partition
    records = records_of(cluster, OFFSETS_TOPIC, partition.partition)
    of_groups = [record.value for record in records if record.key[1] == 2 and record.value]
    return [one for one in map(_round, of_groups) if one.members]


def _round(value: bytes) -> Round:
    """A GroupMetadataValue v3. Members are called by the first letter of their ids, which is their client's."""
    fields = _Fields(value)
    assert fields.number(2) == 3
    fields.data(2), fields.number(4), fields.data(2)
    leader = fields.data(2).decode()[:1]
    fields.number(8)
    members: dict[str, Said] = {}
    for _ in range(fields.number(4)):
        name = fields.data(2).decode()[0]
        fields.data(2), fields.data(2), fields.data(2), fields.number(4), fields.number(4)
        members[name] = Said(fields.data(4), fields.data(4))
    return Round(leader, members)


@attrs.define
class _Fields:
    """Bytes, read from the front."""

    left: bytes

    def number(self, size: int) -> int:
        taken, self.left = self.left[:size], self.left[size:]
        return int.from_bytes(taken, "big", signed=True)

    def data(self, size: int) -> bytes:
        """Return bytes behind their length; none for a null."""
        length = max(0, self.number(size))
        taken, self.left = self.left[:length], self.left[length:]
        return taken


@attrs.define(eq=False)
class OldMember:
    """Replays the bytes of a member of the old build, join by join. Heartbeats, and rejoins as that member did."""

    name: str
    strategy: str
    recorded: Sequence[Round]
    client: WireClient
    member_id: str = ""
    generation: int = -1
    _wants_rebalance: bool = False

    def rejoin(self) -> None:
        """Ask for a rebalance, as a leader does that sees more partitions of the topic."""
        self._wants_rebalance = True

    async def run(self) -> None:
        own = [one for one in self.recorded if self.name in one.members]
        for said in own:
            joined = await self._join(said.members[self.name].subscription)
            shares: list[dict[str, Any]] = []
            if joined.leader == self.member_id:
                assert said.leader == self.name
                ids = {member.member_id[0]: member.member_id for member in joined.members}
                assert ids.keys() == said.members.keys()
                shares = [{"member_id": ids[name], "assignment": one.assignment} for name, one in said.members.items()]
            assignment = await self._sync(shares)
            owned = subscribed(said.members[self.name].subscription)[2]
            if set(owned) <= set(assigned(assignment)):
                await self._stay()
            else:
                await trio.sleep(1)  # it revokes, and rejoins by itself (KIP-429)
        raise AssertionError(f"{self.name}: the old build saw no rebalance here")

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

    async def _sync(self, shares: Sequence[Mapping[str, Any]]) -> bytes:
        answer = await self.client.ask(
            request(
                SyncGroupRequest,
                5,
                group_id=GROUP,
                generation_id=self.generation,
                member_id=self.member_id,
                protocol_type="consumer",
                protocol_name=self.strategy,
                assignments=list(shares),
            )
        )
        assert answer.error_code == ErrorCode.NONE
        return bytes(answer.assignment)

    async def _stay(self) -> None:
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
        """The last start of each partition that a member of this build has read."""
        return {event.partition: event for event in self.members[name].seen(ClaimStarted)}


async def play(strategy: str, new: Collection[str] = NAMES, recorded: Sequence[Round] = ()) -> Outcome:
    """Start members a, b and c; those outside of `new` are an old build's."""
    cluster = EmbeddedCluster(topics={TOPIC: PARTITIONS}, in_memory=True, seed=1)
    outcome = Outcome([])
    old: dict[str, OldMember] = {}
    async with cluster, AsyncExitStack() as stack, deadline() as nursery:

        async def come(name: str) -> None:
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
        await come("a")
        await come("b")
        cluster.add_partitions(TOPIC, GROWN)
        for partition in range(PARTITIONS, GROWN):
            cluster.produce(TOPIC, partition, b"into what is new")
        if "a" in old:
            old["a"].rejoin()
        await trio.sleep(_QUIET)
        await come("c")
        outcome.rounds = rounds(cluster)
        nursery.cancel_scope.cancel()
    return outcome


def topic_partitions(rows: Collection[tuple[str, int]]) -> set[TopicPartition]:
    return {TopicPartition(topic, number) for topic, number in rows}
