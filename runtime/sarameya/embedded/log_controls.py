"""What hurts logs, and what is written to them that no producer writes: controls of `EmbeddedCluster` for tests.

None of them waits. What they do is `cluster_state`'s; here is what they are called and what they mean.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable

import trio

from sarameya.embedded.cluster_state import ClusterState
from sarameya.embedded.log.partition_log import PartitionLog
from sarameya.embedded.replicas import ReplicaLag
from sarameya.model import Headers, TopicPartition
from sarameya.protocol.records import build


class LogControls(ABC):
    """Base of `EmbeddedCluster`."""

    _state: ClusterState

    @abstractmethod
    def log(self, topic: str, partition: int) -> PartitionLog: ...

    @abstractmethod
    def append(self, topic: str, partition: int, batch: bytes) -> int: ...

    @abstractmethod
    def _now_ms(self) -> int: ...

    @abstractmethod
    def _rearm(self) -> None: ...

    # Followers

    def hold_replica(
        self,
        topic: str,
        partition: int,
        broker_id: int,
        offset: int | None = None,
        *,
        high_watermark: int | None = None,
        in_sync: bool = False,
    ) -> None:
        """Let a follower have the log up to `offset` only (None: up to where it ends now), until `release_replica`.

        Readers are shown what stands before its `high_watermark` (None: all that it has), which may be behind: it
        comes with the next records. Beyond `offset` it answers OFFSET_OUT_OF_RANGE. It is in sync no more, so that
        the leader sends nobody to it, and goes on without it; with `in_sync` the leader waits for it instead, and
        shows nobody what it does not have (producers are answered all the same, whatever `acks` they want). Batches
        that reach beyond `offset` are not there at all.

        Raises Refused with REPLICA_NOT_AVAILABLE for a broker that does not follow, ValueError for offsets outside the
        log, or before what has been shown to readers for one that is to be in sync.
        """
        end = self.log(topic, partition).end_offset if offset is None else offset
        lag = ReplicaLag(end, end if high_watermark is None else high_watermark, in_sync)
        self._state.hold_replica(topic, partition, broker_id, lag, trio.current_time())
        self._rearm()

    def release_replica(self, topic: str, partition: int, broker_id: int) -> None:
        """Let a follower that is held catch up, and be in sync again."""
        self._state.release_replica(topic, partition, broker_id, trio.current_time())
        self._rearm()

    # Topics and logs

    def add_partitions(self, topic: str, partitions: int) -> None:
        """Let the topic have `partitions` of them in all."""
        self._state.grow_topic(topic, partitions)

    def append_raw(self, topic: str, partition: int, data: bytes, last_offset: int) -> None:
        """Put any bytes into a log, standing for the offsets up to `last_offset`: see `PartitionLog.append_raw`."""
        self.log(topic, partition).append_raw(data, last_offset)
        self._touch(topic, partition)

    def delete_records(self, topic: str, partition: int, before_offset: int) -> None:
        """Let retention take the records before an offset.

        Fetches that wait are not told, as in Kafka: who is before it finds out when something comes, or with the next.
        """
        self.log(topic, partition).delete_before(before_offset)

    def truncate(self, topic: str, partition: int, offset: int) -> None:
        """Cut the log off at an offset, as an unclean election does; raise the epoch with `move_leader`.

        Of a broker that is stopped and started again after it, it is what a crash does whose last writes are lost.
        """
        self._state.truncate(topic, partition, offset, trio.current_time())
        self._rearm()

    def _touch(self, topic: str, partition: int) -> None:
        self._state.touch(TopicPartition(topic, partition), trio.current_time())
        self._rearm()

    # Transactions

    def produce_transactional(
        self,
        topic: str,
        partition: int,
        value: bytes | None,
        key: bytes | None = None,
        headers: Headers = (),
        timestamp: int | None = None,
        *,
        producer_id: int,
        producer_epoch: int = 0,
    ) -> int:
        """Append one record as part of the producer's transaction, which it begins if none is open there (KIP-98).

        Returns its offset. Any number that no client was given will do as a producer id: nobody coordinates these
        transactions. `timestamp` is in ms; None: now. Raises Refused with INVALID_PRODUCER_EPOCH for an old epoch.
        """
        if timestamp is None:
            timestamp = self._now_ms()
        batch = build(
            [(timestamp, key, value, headers)],
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            base_sequence=self.log(topic, partition).next_sequence(producer_id, producer_epoch),
            transactional=True,
        )
        return self.append(topic, partition, batch)

    def end_transaction(
        self,
        producer_id: int,
        *,
        commit: bool,
        producer_epoch: int = 0,
        partitions: Iterable[tuple[str, int]] | None = None,
    ) -> dict[TopicPartition, int]:
        """Write the markers that commit or abort the producer's transaction, and return their offsets.

        Into each of `partitions`, as (topic, number), whether it has one open there or not; None: wherever it has.
        Raises Refused with INVALID_PRODUCER_EPOCH for an old epoch, before anything is written.
        """
        written = self._state.end_transaction(
            producer_id, producer_epoch, partitions, committed=commit, now=trio.current_time()
        )
        self._rearm()
        return written
