"""A group of peer programs under watch: who owns what by the coordinator's word, and what of the produced was read.

Works against any brokers that speak the protocol. The judge is neither side: kafka-python's admin client asks the
coordinator (DescribeGroups), librdkafka's producer fills the topic.
"""

from __future__ import annotations

import itertools
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import attrs
import trio
from confluent_kafka import KafkaError, KafkaException, Producer
from kafka.admin import KafkaAdminClient
from kafka.errors import KafkaError as KafkaPythonError

from tests.integration.peers.lines import MemberOptions
from tests.integration.peers.running import COMMANDS, Command, Peer, Peers, open_peers

SETTLE_SECONDS = 20.0
"""What a group may take to agree, and its members to have read all there is."""

_POLL_SECONDS = 0.05

_ASK_MS = 5_000

Owned = dict[str, set[int]]
"""Client id -> the partitions that the coordinator says it has."""


class Trickle:
    """Messages in a steady flow, to one partition after the other; each value is the time it was produced at.

    `producers` share the partitions, each those beside each other: what waits to be acknowledged holds up what the same
    producer sends to the same broker.
    """

    def __init__(self, bootstrap: str, topic: str, partitions: int, rate: float, producers: int = 1) -> None:
        settings = {"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 0, "log_level": 0}
        self._producers = [Producer(settings) for _ in range(producers)]
        self._topic = topic
        self._partitions = partitions
        self._rate = rate
        self._failures: list[KafkaError] = []
        self.delivered: dict[tuple[int, int], float] = {}
        """(partition, offset) -> when its acknowledgement was heard of, in that order; seconds since 1970."""

    async def run(self) -> None:
        """Produce until cancelled. Raises KafkaException for what was not delivered."""
        due = trio.current_time()
        try:
            for number in itertools.count():
                partition, value = number % self._partitions, repr(time.time()).encode()
                producer = self._producers[partition * len(self._producers) // self._partitions]
                producer.produce(self._topic, value, partition=partition, on_delivery=self._on_delivery)
                for producer in self._producers:
                    producer.poll(0)
                if self._failures:
                    raise KafkaException(self._failures[0])
                due += 1 / self._rate
                await trio.sleep_until(due)
        finally:
            for producer in self._producers:
                producer.purge()

    async def another_round(self) -> None:
        """Wait until each partition has got something more."""
        seen = len(self.delivered)
        while len({partition for partition, _ in self.delivered_after(seen)}) < self._partitions:
            await trio.sleep(_POLL_SECONDS)

    def delivered_after(self, count: int) -> set[tuple[int, int]]:
        """All that was delivered but the first `count`."""
        return set(itertools.islice(self.delivered, count, None))

    def _on_delivery(self, error: KafkaError | None, message: Any) -> None:
        if error is not None:
            self._failures.append(error)
        elif message.offset() is not None:
            # None where the broker had it already, and the answer that said so was lost: nobody says where it is.
            self.delivered[message.partition(), message.offset()] = time.time()


@attrs.define(eq=False)
class Stage:
    """The members of one group on one topic, and what watches them."""

    peers: Peers
    trickle: Trickle
    topic: str
    group: str
    partitions: int
    _bootstrap: str
    _admin: KafkaAdminClient

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
        missing = sorted(self.trickle.delivered.keys() - self.peers.read.keys())
        told = [f"{peer.client_id} told {peer.changes()} and said:\n{peer.said(10)}" for peer in self.peers.live]
        raise AssertionError("\n".join([f"at last {owned}; not read: {missing[:10]}", *told]))

    def read_twice(self) -> set[int]:
        """The partitions of which something was read again that its first reader should have committed.

        Java's consumer, where it is cooperative, commits before the rebalance what it gives up after it, and reads on
        meanwhile (ConsumerCoordinator.onJoinPrepare, onJoinComplete): that is read again, whoever the broker is.
        """
        readers: dict[tuple[int, int], list[tuple[float, str]]] = defaultdict(list)
        for peer in self.peers.all:
            for message in peer.messages:
                readers[message.place].append((message.at, peer.client_id))
        careless = {peer.client_id for peer in self.peers.all if _is_careless(peer)}
        again = [(place, min(times)[1]) for place, times in readers.items() if len(times) > 1]
        return {partition for (partition, _), first in again if first not in careless}

    def _is_dealt(self, owned: Owned) -> bool:
        return sorted(itertools.chain.from_iterable(owned.values())) == list(range(self.partitions))

    async def _read_all(self, owned: Owned) -> None:
        before, lines = len(self.trickle.delivered), {peer: len(peer.lines) for peer in self.peers.live}
        await self.trickle.another_round()
        newer, read = self.trickle.delivered_after(before), self.peers.read
        missing = self.trickle.delivered.keys() - read.keys()
        await self.peers.until(lambda: missing <= read.keys())
        for peer, number in lines.items():
            theirs = {partition for partition, _ in newer & peer.read_since(number)}
            assert theirs <= owned[peer.client_id], f"{peer.client_id} reads {theirs}, and has {owned}"

    def _describe(self) -> Owned | None:
        """Return the owner of each partition; None while the group is not stable."""
        try:
            described = self._admin.describe_groups([self.group])[self.group]
        except KafkaPythonError:  # the coordinator is not there yet
            return None
        if described["error"] is not None or described["group_state"] != "Stable":
            return None
        return {
            member["client_id"]: {
                number for topic in member["member_assignment"]["assigned_partitions"] for number in topic["partitions"]
            }
            for member in described["members"]
        }


@asynccontextmanager
async def open_stage(
    bootstrap: str,
    topic: str,
    partitions: int,
    *,
    group: str,
    rate: float = 100.0,
    commands: Mapping[str, Command] = COMMANDS,
) -> AsyncIterator[Stage]:
    """A group to put members into, and a trickle of `rate` messages a second to its topic, while the block runs."""
    trickle = Trickle(bootstrap, topic, partitions, rate)
    admin = await trio.to_thread.run_sync(_admin, bootstrap)
    try:
        async with open_peers(commands) as peers, trio.open_nursery() as nursery:
            nursery.start_soon(trickle.run)
            yield Stage(peers, trickle, topic, group, partitions, bootstrap, admin)
            nursery.cancel_scope.cancel()
    finally:
        admin.close()


def _admin(bootstrap: str) -> KafkaAdminClient:
    return KafkaAdminClient(bootstrap_servers=bootstrap.split(","), request_timeout_ms=_ASK_MS)


def _is_careless(peer: Peer) -> bool:
    return (peer.kind, peer.options.strategy) == ("java", "cooperative-sticky")
