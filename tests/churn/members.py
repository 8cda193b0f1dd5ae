"""The members of a group under churn: each a real `ConsumerGroup`, on a network that can be cut off."""

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


class Environment(Protocol):
    """The environment of the members, which also checks their actions."""

    cluster: EmbeddedCluster
    rng: random.Random

    def note(self, line: str) -> None: ...
    def processed(self, partition: TopicPartition, offset: int) -> None: ...
    def check_commit(self, partition: TopicPartition, offset: int) -> None: ...
    def check_owner(self, partition: TopicPartition, generation: int, owner: str) -> None: ...
    def error(self, problem: str) -> Exception: ...


class CheckingHandler(ConsumerGroupHandler):
    """A handler that processes and marks each message, sometimes slowly, and checks the offsets of each claim."""

    def __init__(self, environment: Environment) -> None:
        self.session: Session | None = None
        self._environment = environment

    async def setup(self, session: Session) -> None:
        self.session = session

    async def consume_claim(self, session: Session, claim: Claim) -> None:
        environment, expected = self._environment, claim.initial_offset
        async for message in claim:
            if message.offset != expected:
                raise environment.error(f"{claim.topic_partition}: received {message.offset} instead of {expected}")
            expected = message.offset + 1
            await trio.sleep(environment.rng.choice((0.0, 0.01, 0.5)))
            environment.processed(claim.topic_partition, message.offset)
            session.mark_message(message)

    async def cleanup(self, session: Session) -> None:
        self.session = None


@attrs.define(slots=True, eq=False)
class CrewMember:
    name: str
    instance: str | None
    group: ConsumerGroup
    network: CutOff
    handler: CheckingHandler
    scope: trio.CancelScope = attrs.field(factory=trio.CancelScope)

    @property
    def owned(self) -> list[TopicPartition]:
        session = self.handler.session
        return topic_partitions(session.claims) if session is not None and not session.is_lost else []


class Crew:
    """The members of a group, which it starts, closes and crashes. `alive` lists members not yet closed or crashed."""

    def __init__(self, environment: Environment, strategies: tuple[str, ...]) -> None:
        self.alive: list[CrewMember] = []
        self.nursery: trio.Nursery | None = None
        self._environment = environment
        self._strategies = strategies
        self._started = 0

    def start(self, instance: str | None = None) -> None:
        """Start a new member; with an `instance`, a static member (KIP-345)."""
        assert self.nursery is not None
        self._started += 1
        name = f"m{self._started}"
        network = CutOff(self._environment.cluster.transport)
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
            self._environment.cluster.bootstrap_servers,
            GROUP,
            config,
            observers=[partial(self._on_event, instance or name)],
            transport=network,
            run_sync=run_inline,
            rng=random.Random(self._environment.rng.getrandbits(32)),
        )
        member = CrewMember(name, instance, group, network, CheckingHandler(self._environment))
        self.alive.append(member)
        self.nursery.start_soon(self._run, member, name=name)

    async def _run(self, member: CrewMember) -> None:
        with member.scope:
            async with member.group:
                await member.group.consume([TOPIC], member.handler)

    def _on_event(self, name: str, event: Event) -> None:
        self._environment.note(f"{name} {event}")
        match event:
            case Committed(offsets=offsets):
                for partition, offset in offsets.items():
                    self._environment.check_commit(partition, offset)
            case PartitionsAssigned(generation=generation, added=added, kept=kept):
                for partition in added + kept:
                    self._environment.check_owner(partition, generation.id, name)

    def close(self, member: CrewMember) -> None:
        """Close a member in order: drain, commit, leave."""
        self.alive.remove(member)
        member.group.close_nowait()

    def crash(self, member: CrewMember) -> None:
        """Kill a member: no commit, no leave."""
        self.alive.remove(member)
        member.network.alive = False
        member.scope.cancel()
