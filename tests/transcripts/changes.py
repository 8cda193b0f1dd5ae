"""Changes of a cluster during a play: leaders move, log starts rise, transactions end.

`Changes` has two implementations: `LiveChanges` for any Kafka, by requests, and `EmbeddedChanges`, by the methods of
`EmbeddedCluster`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol

import attrs
import trio
from kafka.protocol.admin import AlterPartitionReassignmentsRequest, DeleteRecordsRequest, ElectLeadersRequest
from kafka.protocol.consumer import ListOffsetsRequest
from kafka.protocol.metadata import FindCoordinatorRequest
from kafka.protocol.producer import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    EndTxnRequest,
    InitProducerIdRequest,
    ProduceRequest,
)

from sarameya.embedded import EmbeddedCluster
from sarameya.error_codes import ErrorCode
from tests.embedded.api_kit import request
from tests.transcripts.batches import Batch

SendTo = Callable[[int, Any], Awaitable[Any]]
"""Sends a request to the broker with a node id, and returns the response."""

_RETRY_SECONDS = 0.05
_TIMEOUT_MS = 20_000
_LATEST = -1
_RETRIABLE = frozenset(
    {
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.CONCURRENT_TRANSACTIONS,
    }
)
"""Error codes of a coordinator that is not ready yet: it still writes the last transaction, or creates its topic."""
_FIRST_PRODUCER = 1 << 40
"""Higher than the producer ids that clients receive."""
_OLD = "v3_and_below_"
"""The prefix of AddPartitionsToTxn's fields for clients; the fields without it are for brokers."""


class Changes(Protocol):
    """Changes of a cluster. Each method returns once every broker knows of the change."""

    async def move_leader(self, topic: str, partition: int, node_id: int) -> None: ...

    async def delete_records(self, topic: str, partition: int, before: int) -> None: ...

    async def append_in_transaction(self, producer: str, topic: str, partition: int, batch: Batch) -> int:
        """Append a batch in a transaction of `producer` (a transactional id), and return its producer id."""
        ...

    async def end_transaction(self, producer: str, *, commits: bool) -> None: ...


@attrs.frozen
class EmbeddedChanges:
    cluster: EmbeddedCluster
    _producers: dict[str, int] = attrs.field(factory=dict, init=False)
    """The producer id of each transactional id; no coordinator has these transactions."""

    async def move_leader(self, topic: str, partition: int, node_id: int) -> None:
        self.cluster.move_leader(topic, partition, node_id)

    async def delete_records(self, topic: str, partition: int, before: int) -> None:
        self.cluster.delete_records(topic, partition, before)

    async def append_in_transaction(self, producer: str, topic: str, partition: int, batch: Batch) -> int:
        producer_id = self._producers.setdefault(producer, _FIRST_PRODUCER + len(self._producers))
        sequence = self.cluster.log(topic, partition).next_sequence(producer_id, 0)
        whole = attrs.evolve(batch, sequence=sequence, transactional=True)
        self.cluster.append(topic, partition, whole.encoded(producer_id, 0))
        return producer_id

    async def end_transaction(self, producer: str, *, commits: bool) -> None:
        self.cluster.end_transaction(self._producers[producer], commit=commits)


@attrs.define
class _Transaction:
    """State of a transactional producer."""

    producer_id: int
    epoch: int
    sequences: dict[tuple[str, int], int] = attrs.field(factory=dict)
    """The next sequence number of each partition that it has ever written to."""
    partitions: dict[tuple[str, int], int] = attrs.field(factory=dict)
    """The partitions of the current transaction, each with the node id of its leader."""


@attrs.frozen
class LiveChanges:
    send: SendTo
    node_ids: Sequence[int]
    _transactions: dict[str, _Transaction] = attrs.field(factory=dict, init=False)

    async def move_leader(self, topic: str, partition: int, node_id: int) -> None:
        """Make the node the partition's preferred leader by a reassignment, and elect the preferred leader."""
        replicas = [node_id, *(other for other in self.node_ids if other != node_id)]
        reassigned = {"partition_index": partition, "replicas": replicas}
        topics = [{"name": topic, "partitions": [reassigned]}]
        await self.send(node_id, request(AlterPartitionReassignmentsRequest, 0, timeout_ms=_TIMEOUT_MS, topics=topics))
        elected = {"election_type": 0, "topic_partitions": [{"topic": topic, "partitions": [partition]}]}
        await self.send(node_id, request(ElectLeadersRequest, 1, **elected, timeout_ms=_TIMEOUT_MS))
        while not await self._is_led(topic, partition, node_id):
            await trio.sleep(_RETRY_SECONDS)
            await self.send(node_id, request(ElectLeadersRequest, 1, **elected, timeout_ms=_TIMEOUT_MS))

    async def _is_led(self, topic: str, partition: int, leader: int) -> bool:
        """Return whether each broker knows its role: the leader responds, all others refuse."""
        answers = {node_id: await self._latest(topic, partition, node_id) for node_id in self.node_ids}
        codes = {node_id: answer.error_code for node_id, answer in answers.items()}
        return codes.pop(leader) == ErrorCode.NONE and set(codes.values()) <= {ErrorCode.NOT_LEADER_OR_FOLLOWER}

    async def delete_records(self, topic: str, partition: int, before: int) -> None:
        topics = [{"name": topic, "partitions": [{"partition_index": partition, "offset": before}]}]
        leader = await self._leader(topic, partition)
        answer = await self.send(leader, request(DeleteRecordsRequest, 1, topics=topics, timeout_ms=_TIMEOUT_MS))
        assert answer.topics[0].partitions[0].error_code == ErrorCode.NONE

    # Transactions, with the requests of a client of Kafka 2.4

    async def append_in_transaction(self, producer: str, topic: str, partition: int, batch: Batch) -> int:
        if producer not in self._transactions:
            started = await self._coordinated(producer, InitProducerIdRequest, 2, transaction_timeout_ms=60_000)
            self._transactions[producer] = _Transaction(started.producer_id, started.producer_epoch)
        known = self._transactions[producer]
        at = topic, partition
        who = {"producer_id": known.producer_id, "producer_epoch": known.epoch}
        if at not in known.partitions:
            added = [{"name": topic, "partitions": [partition]}]
            await self._coordinated(producer, AddPartitionsToTxnRequest, 1, **who, topics=added, prefix=_OLD)
            known.partitions[at] = await self._leader(topic, partition)
        whole = attrs.evolve(batch, sequence=known.sequences.get(at, 0), transactional=True)
        records = whole.encoded(known.producer_id, known.epoch)
        data = [{"name": topic, "partition_data": [{"index": partition, "records": records}]}]
        produce = request(
            ProduceRequest, 7, transactional_id=producer, acks=-1, timeout_ms=_TIMEOUT_MS, topic_data=data
        )
        answer = await self.send(known.partitions[at], produce)
        assert answer.responses[0].partition_responses[0].error_code == ErrorCode.NONE
        known.sequences[at] = whole.sequence + len(whole.values)
        return known.producer_id

    async def end_transaction(self, producer: str, *, commits: bool) -> None:
        known = self._transactions[producer]
        ends = {at: (await self._latest(*at, node_id)).offset for at, node_id in known.partitions.items()}
        who = {"producer_id": known.producer_id, "producer_epoch": known.epoch}
        await self._coordinated(producer, EndTxnRequest, 1, **who, committed=commits)
        for at, node_id in known.partitions.items():
            while (await self._latest(*at, node_id)).offset == ends[at]:  # EndTxn returns before the markers exist
                await trio.sleep(_RETRY_SECONDS)
        known.partitions.clear()

    async def _coordinated(self, producer: str, message: Any, version: int, prefix: str = "", **fields: Any) -> Any:
        """Send a request to the producer's coordinator until it succeeds. `prefix` begins the fields' names."""
        named = {f"{prefix}{name}": value for name, value in {"transactional_id": producer, **fields}.items()}
        while True:
            found = await self.send(self.node_ids[0], request(FindCoordinatorRequest, 2, key=producer, key_type=1))
            if found.error_code == ErrorCode.NONE:
                answer = await self.send(found.node_id, request(message, version, **named))
                codes = _codes(answer)
                if codes <= {ErrorCode.NONE}:
                    return answer
                assert codes <= _RETRIABLE, codes
            await trio.sleep(_RETRY_SECONDS)

    # Partitions

    async def _leader(self, topic: str, partition: int) -> int:
        codes = {node_id: (await self._latest(topic, partition, node_id)).error_code for node_id in self.node_ids}
        return next(node_id for node_id, code in codes.items() if code == ErrorCode.NONE)

    async def _latest(self, topic: str, partition: int, node_id: int) -> Any:
        topics = [{"name": topic, "partitions": [{"partition_index": partition, "timestamp": _LATEST}]}]
        answer = await self.send(node_id, request(ListOffsetsRequest, 4, topics=topics, replica_id=-1))
        return answer.topics[0].partitions[0]


def _codes(answer: Any) -> set[int]:
    if isinstance(answer, AddPartitionsToTxnResponse):
        return {p.partition_error_code for t in answer.results_by_topic_v3_and_below for p in t.results_by_partition}
    return {answer.error_code}
