"""The members of a group under churn: each a real `ConsumerGroup`, on a network that can go dead."""

from __future__ import annotations

import random
from functools import partial
from typing import Protocol

import attrs
import trio

from sarameya import Claim, Config, ConsumerGroup, ConsumerGroupHandler, Event, Session, TopicPartition
from sarameya.embedded import EmbeddedCluster
from sarameya.model import topic_partitions
from sarameya.observe import Committed, PartitionsAssigned
from sarameya.testing import run_inline
from tests.group.kit import CutOff

GROUP = "churn"
TOPIC = "orders"


class Ground(Protocol):
    """The world that members run in, which also checks what they do."""

    cluster: EmbeddedCluster
    rng: random.Random

    def note(self, line: str) -> None: ...
    def processed(self, partition: TopicPartition, offset: int) -> None: ...
    def check_commit(self, partition: TopicPartition, offset: int) -> None: ...
    def check_owner(self, partition: TopicPartition, generation: int, owner: str) -> None: ...
    def error(self, problem: str) -> Exception: ...


class Processing(ConsumerGroupHandler):
    """Processes, then marks; takes its time, and checks what each claim is given."""

    def __init__(self, ground: Ground) -> None:
        self.session: Session | None = None
        self._ground = ground

    async def setup(self, session: Session) -> None:
        self.session = session

    async def consume_claim(self, session: Session, claim: Claim) -> None:
        ground, expected = self._ground, claim.initial_offset
        async for message in claim:
            if message.offset != expected:
                raise ground.error(f"{claim.topic_partition}: {message.offset} came where {expected} was due")
            expected = message.offset + 1
            await trio.sleep(ground.rng.choice((0.0, 0.01, 0.5)))
            ground.processed(claim.topic_partition, message.offset)
            session.mark_message(message)

    async def cleanup(self, session: Session) -> None:
        self.session = None


@attrs.define(slots=True, eq=False)
class CrewMember:
    name: str
    instance: str | None
    group: ConsumerGroup
    network: CutOff
    handler: Processing
    scope: trio.CancelScope = attrs.field(factory=trio.CancelScope)

    @property
    def owned(self) -> list[TopicPartition]:
        session = self.handler.session
        return topic_partitions(session.claims) if session is not None and not session.is_lost else []


class Crew:
    """Starts members and ends them, kindly or not. `alive` are those that have not been ended."""

    def __init__(self, ground: Ground, strategies: tuple[str, ...]) -> None:
        self.alive: list[CrewMember] = []
        self.nursery: trio.Nursery | None = None
        self._ground = ground
        self._strategies = strategies
        self._started = 0

    def start(self, instance: str | None = None) -> None:
        """A new member; with an `instance`, a static one (KIP-345)."""
        assert self.nursery is not None
        self._started += 1
        name = f"m{self._started}"
        network = CutOff(self._ground.cluster.transport)
        config = Config(
            client_id=name,
            rebalance_strategies=self._strategies,  # type: ignore[arg-type]
            group_instance_id=instance,
            offset_initial="oldest",
            fetch_max_wait=30.0,
            autocommit_interval=5.0,
            claim_grace=5.0,
        )
        group = ConsumerGroup(
            self._ground.cluster.bootstrap_servers,
            GROUP,
            config,
            observers=[partial(self._saw, instance or name)],
            transport=network,
            run_sync=run_inline,
            rng=random.Random(self._ground.rng.getrandbits(32)),
        )
        member = CrewMember(name, instance, group, network, Processing(self._ground))
        self.alive.append(member)
        self.nursery.start_soon(self._run, member, name=name)

    async def _run(self, member: CrewMember) -> None:
        with member.scope:
            async with member.group:
                await member.group.consume([TOPIC], member.handler)

    def _saw(self, name: str, event: Event) -> None:
        self._ground.note(f"{name} {event}")
        match event:
            case Committed(offsets=offsets):
                for partition, offset in offsets.items():
                    self._ground.check_commit(partition, offset)
            case PartitionsAssigned(generation=generation, added=added, kept=kept):
                for partition in added + kept:
                    self._ground.check_owner(partition, generation.id, name)

    def close(self, member: CrewMember) -> None:
        """End it in order: drain, commit, leave."""
        self.alive.remove(member)
        member.group.close_nowait()

    def crash(self, member: CrewMember) -> None:
        """Kill a member: no commit, no leave."""
        self.alive.remove(member)
        member.network.alive = False
        member.scope.cancel()
