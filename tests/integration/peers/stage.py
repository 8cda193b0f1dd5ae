"""A group of peer programs under watch: which member owns which partitions, and which produced messages were read.

It works with any brokers that implement the protocol. Neither side judges itself: kafka-python's admin client asks the
coordinator for the owners (DescribeGroups), librdkafka's producer fills the topic.
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
"""The longest time for a group to become stable and for its members to read everything."""

_POLL_SECONDS = 0.05

_REQUEST_TIMEOUT_MS = 5_000

Owned = dict[str, set[int]]
"""Client id -> the partitions that it owns, as the coordinator reports them."""


class Trickle:
    """A steady flow of messages, to one partition after the other. Each value is the time at which it was produced.

    `producers` share the partitions: each takes a range of neighbours. A record that waits for its acknowledgement
    delays the later records of the same producer to the same broker.
    """

    def __init__(self, bootstrap: str, topic: str, partitions: int, rate: float, producers: int = 1) -> None:
        settings = {"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 0, "log_level": 0}
        self._producers = [Producer(settings) for _ in range(producers)]
        self._topic = topic
        self._partitions = partitions
        self._rate = rate
        self._failures: list[KafkaError] = []
        self.delivered: dict[tuple[int, int], float] = {}
        """(partition, offset) -> the time of its acknowledgement in seconds since 1970, in that order."""

    async def run(self) -> None:
        """Produce until cancelled. Raises KafkaException if a record was not delivered."""
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
        """Wait until each partition has a further message."""
        seen = len(self.delivered)
        while len({partition for partition, _ in self.delivered_after(seen)}) < self._partitions:
            await trio.sleep(_POLL_SECONDS)

    def delivered_after(self, count: int) -> set[tuple[int, int]]:
        """Return all delivered messages except for the first `count`."""
        return set(itertools.islice(self.delivered, count, None))

    def _on_delivery(self, error: KafkaError | None, message: Any) -> None:
        if error is not None:
            self._failures.append(error)
        elif message.offset() is not None:
            # None: a retried record that the broker already had. Its first response is lost, and with it its offset.
            self.delivered[message.partition(), message.offset()] = time.time()


@attrs.define(eq=False)
class Stage:
    """The members of one group on one topic, with the clients that watch them."""

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

        Then wait until the members have read all messages produced so far, and until each partition's owner has read
        a newer one. Raises AssertionError with the last state if this takes longer than SETTLE_SECONDS.
        """
        clients = {peer.client_id for peer in self.peers.live}
        owned: Owned | None = None
        with trio.move_on_after(SETTLE_SECONDS):
            while owned is None or owned.keys() != clients or not self._is_complete(owned):
                owned = await trio.to_thread.run_sync(self._describe)
                await trio.sleep(_POLL_SECONDS)
            await self._read_all(owned)
            return owned
        missing = sorted(self.trickle.delivered.keys() - self.peers.read.keys())
        members = [
            f"{peer.client_id} reported {peer.changes()}; logged:\n{peer.last_errors(10)}" for peer in self.peers.live
        ]
        raise AssertionError("\n".join([f"at last {owned}; not read: {missing[:10]}", *members]))

    def read_twice(self) -> set[int]:
        """Return the partitions with a message that was read twice although its first reader should have committed it.

        Messages of Java's cooperative consumer do not count. It commits before the rebalance, reads on, and revokes
        partitions after it (ConsumerCoordinator.onJoinPrepare, onJoinComplete): the new owner reads the messages
        between again, with any broker.
        """
        readers: dict[tuple[int, int], list[tuple[float, str]]] = defaultdict(list)
        for peer in self.peers.all:
            for message in peer.messages:
                readers[message.place].append((message.at, peer.client_id))
        excused = {peer.client_id for peer in self.peers.all if _reads_after_last_commit(peer)}
        again = [(place, min(times)[1]) for place, times in readers.items() if len(times) > 1]
        return {partition for (partition, _), first in again if first not in excused}

    def _is_complete(self, owned: Owned) -> bool:
        return sorted(itertools.chain.from_iterable(owned.values())) == list(range(self.partitions))

    async def _read_all(self, owned: Owned) -> None:
        before, lines = len(self.trickle.delivered), {peer: len(peer.lines) for peer in self.peers.live}
        await self.trickle.another_round()
        newer, read = self.trickle.delivered_after(before), self.peers.read
        missing = self.trickle.delivered.keys() - read.keys()
        await self.peers.until(lambda: missing <= read.keys())
        for peer, number in lines.items():
            read_partitions = {partition for partition, _ in newer & peer.read_since(number)}
            assert read_partitions <= owned[peer.client_id], (
                f"{peer.client_id} reads {read_partitions}; the owners are {owned}"
            )

    def _describe(self) -> Owned | None:
        """Return the partitions of each member; None while the group is not stable."""
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
    """Offer an empty group, and produce `rate` messages a second to its topic, while the block runs."""
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
    return KafkaAdminClient(bootstrap_servers=bootstrap.split(","), request_timeout_ms=_REQUEST_TIMEOUT_MS)


def _reads_after_last_commit(peer: Peer) -> bool:
    return (peer.kind, peer.options.strategy) == ("java", "cooperative-sticky")
