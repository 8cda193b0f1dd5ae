"""A group of peer programs under watch: who owns what by the coordinator's word, and what of the produced was read.

Works against any brokers that speak the protocol. The judge is neither side: librdkafka's admin client asks the
coordinator (DescribeGroups), its producer fills the topic.
"""

from __future__ import annotations

import itertools
import time
from collections import Counter, defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import attrs
import trio
from confluent_kafka import ConsumerGroupState, KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient

from tests.integration.peers.lines import Line, MemberOptions
from tests.integration.peers.running import Peer, Peers, open_peers

SETTLE_SECONDS = 20.0
"""What a group may take to agree, and its members to have read all there is."""

_POLL_SECONDS = 0.05

Owned = dict[str, set[int]]
"""Client id -> the partitions that the coordinator says it has."""


class Trickle:
    """Messages in a steady flow, to one partition after the other; each value is the time it was produced at."""

    def __init__(self, bootstrap: str, topic: str, partitions: int, rate: float) -> None:
        self._producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0, "log_level": 0})
        self._topic = topic
        self._partitions = partitions
        self._rate = rate
        self._failures: list[KafkaError] = []
        self.delivered: list[tuple[int, int]] = []
        """(partition, offset), as the brokers have acknowledged them."""

    async def run(self) -> None:
        """Produce until cancelled. Raises KafkaException for what was not delivered."""
        due = trio.current_time()
        for number in itertools.count():
            partition, value = number % self._partitions, repr(time.time()).encode()
            self._producer.produce(self._topic, value, partition=partition, on_delivery=self._on_delivery)
            self._producer.poll(0)
            if self._failures:
                raise KafkaException(self._failures[0])
            due += 1 / self._rate
            await trio.sleep_until(due)

    async def another_round(self) -> None:
        """Wait until each partition has got something more."""
        seen = len(self.delivered)
        while len({partition for partition, _ in self.delivered[seen:]}) < self._partitions:
            await trio.sleep(_POLL_SECONDS)

    def _on_delivery(self, error: KafkaError | None, message: Any) -> None:
        if error is not None:
            self._failures.append(error)
        else:
            self.delivered.append((message.partition(), message.offset()))


@attrs.define(eq=False)
class Stage:
    """The members of one group on one topic, and what watches them."""

    peers: Peers
    trickle: Trickle
    topic: str
    group: str
    partitions: int
    _bootstrap: str
    _admin: AdminClient

    async def start(self, kind: str, strategy: str = "range", **options: Any) -> Peer:
        """Start one more member of a kind."""
        client_id = f"{kind}-{len(self.peers.all)}"
        chosen = MemberOptions(self._bootstrap, self.topic, self.group, client_id, strategy, **options)
        return await self.peers.start(kind, chosen)

    async def settled(self) -> Owned:
        """Wait until the group is stable, its members are the live ones, and each partition is owned exactly once.

        Then until all that was produced by then has been read: of each partition something newer too, and that by
        its owner. Raises AssertionError, with what was seen last, when that takes too long.
        """
        clients = {peer.client_id for peer in self.peers.live}
        owned: Owned | None = None
        with trio.move_on_after(SETTLE_SECONDS):
            while owned is None or owned.keys() != clients or not self._is_dealt(owned):
                owned = await trio.to_thread.run_sync(self._describe)
                await trio.sleep(_POLL_SECONDS)
            await self._read_all(owned)
            return owned
        missing = sorted(set(self.trickle.delivered) - set(self.read()))
        said = "\n".join(f"{peer.client_id}: {peer.said(10)}" for peer in self.peers.live)
        raise AssertionError(f"waited for {clients}; at last {owned}, not read: {missing[:10]}; they said:\n{said}")

    def read(self) -> Counter[tuple[int, int]]:
        """How often each (partition, offset) was read, by all members together."""
        lines = itertools.chain.from_iterable(peer.messages for peer in self.peers.all)
        return Counter(map(place_of, lines))

    def read_twice(self) -> set[int]:
        """The partitions of which something was read again that its first reader should have committed.

        Java's consumer, where it is cooperative, commits before the rebalance what it gives up after it, and reads on
        meanwhile (ConsumerCoordinator.onJoinPrepare, onJoinComplete): that is read again, whoever the broker is.
        """
        readers: dict[tuple[int, int], list[str]] = defaultdict(list)
        for _, place, client_id in sorted(
            (line.at, place_of(line), peer.client_id) for peer in self.peers.all for line in peer.messages
        ):
            readers[place].append(client_id)
        careful = {peer.client_id for peer in self.peers.all if not _is_careless(peer)}
        return {partition for (partition, _), [first, *others] in readers.items() if others and first in careful}

    def _is_dealt(self, owned: Owned) -> bool:
        return sorted(itertools.chain.from_iterable(owned.values())) == list(range(self.partitions))

    async def _read_all(self, owned: Owned) -> None:
        before = len(self.trickle.delivered)
        await self.trickle.another_round()
        produced = self.trickle.delivered[:]
        await self.peers.until(lambda: self.read().keys() >= set(produced))
        newer = set(produced[before:])
        for peer in self.peers.live:
            theirs = {partition for partition, _ in newer & places(peer)}
            assert theirs <= owned[peer.client_id], f"{peer.client_id} reads {theirs}, and has {owned}"

    def _describe(self) -> Owned | None:
        """Who owns what; None while the group is not stable."""
        try:
            described = self._admin.describe_consumer_groups([self.group])[self.group].result()
        except KafkaException:  # the coordinator is not there yet
            return None
        if described.state is not ConsumerGroupState.STABLE:
            return None
        return {
            member.client_id: {partition.partition for partition in member.assignment.topic_partitions}
            for member in described.members
        }


@asynccontextmanager
async def open_stage(
    bootstrap: str, topic: str, partitions: int, *, group: str, rate: float = 100.0
) -> AsyncIterator[Stage]:
    """A group to put members into, and a trickle of messages to its topic, for the length of the block."""
    trickle = Trickle(bootstrap, topic, partitions, rate)
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    async with open_peers() as peers, trio.open_nursery() as nursery:
        nursery.start_soon(trickle.run)
        yield Stage(peers, trickle, topic, group, partitions, bootstrap, admin)
        nursery.cancel_scope.cancel()


def places(peer: Peer) -> set[tuple[int, int]]:
    """The (partition, offset) of each message that a member has read."""
    return set(map(place_of, peer.messages))


def place_of(message: Line) -> tuple[int, int]:
    return message.partitions[0], message.offset


def _is_careless(peer: Peer) -> bool:
    return (peer.kind, peer.options.strategy) == ("java", "cooperative-sticky")
