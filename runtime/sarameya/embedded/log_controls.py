"""Methods of `EmbeddedCluster` for tests that damage logs, or write records to them that no producer writes.

Each method calls `cluster_state` and returns without waiting.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable

import trio

from sarameya.embedded.cluster_state import ClusterState
from sarameya.embedded.log.partition_log import PartitionLog
from sarameya.embedded.replicas import ReplicaLag
from sarameya.model import Headers, TopicPartition
from sarameya.protocol.records.batch_codec import build


class LogControls(ABC):
    """Base class of `EmbeddedCluster` with its methods on logs."""

    _state: ClusterState

    @abstractmethod
    def log(self, topic: str, partition: int) -> PartitionLog: ...

    @abstractmethod
    def append(self, topic: str, partition: int, batch: bytes) -> int: ...

    @abstractmethod
    def _now_ms(self) -> int: ...

    @abstractmethod
    def _rearm(self) -> None:
        """Wake the timer if its next deadline is earlier now."""

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
        """Stop a follower's replication at `offset`, until `release_replica`.

        A fetch beyond `offset` returns OFFSET_OUT_OF_RANGE. A batch that ends beyond `offset` is missing as a whole.

        Args:
            topic: The topic.
            partition: The partition.
            broker_id: The follower.
            offset: End of the follower's log; None: the current log end.
            high_watermark: The high watermark that the follower knows; None: the end of its log. It may lag, since
                followers receive it with the next records.
            in_sync: Keep the follower in sync, so that the high watermark stays at `offset`. Producers get their
                response anyway, whatever their `acks`. By default the follower leaves the in-sync replicas: the high
                watermark advances without it, and consumers are not sent to it.

        Raises:
            Refused: REPLICA_NOT_AVAILABLE if the broker is no follower of the partition.
            ValueError: An offset is outside the log, or below the high watermark for a replica that stays in sync.
        """
        end = self.log(topic, partition).end_offset if offset is None else offset
        lag = ReplicaLag(end, end if high_watermark is None else high_watermark, in_sync)
        self._state.hold_replica(topic, partition, broker_id, lag, trio.current_time())
        self._rearm()

    def release_replica(self, topic: str, partition: int, broker_id: int) -> None:
        """Let a held follower catch up and be in sync again."""
        self._state.release_replica(topic, partition, broker_id, trio.current_time())
        self._rearm()

    # Topics and logs

    def add_partitions(self, topic: str, partitions: int) -> None:
        """Grow a topic to `partitions` partitions in all.

        Raises:
            Refused: As `TopicRegistry.grow` does.
        """
        self._state.grow_topic(topic, partitions)

    def append_raw(self, topic: str, partition: int, data: bytes, last_offset: int) -> None:
        """Append any bytes to a log, as the offsets up to `last_offset`; see `PartitionLog.append_raw`."""
        self.log(topic, partition).append_raw(data, last_offset)
        self._log_changed(topic, partition)

    def delete_records(self, topic: str, partition: int, before_offset: int) -> None:
        """Delete the records before an offset, as retention does.

        As in Kafka, this wakes no fetch. A consumer whose position is before the new log start notices that when
        records arrive, or with its next fetch.

        Raises:
            Refused: OFFSET_OUT_OF_RANGE beyond the high watermark.
        """
        self.log(topic, partition).delete_before(before_offset)

    def truncate(self, topic: str, partition: int, offset: int) -> None:
        """Truncate a log at an offset, as an unclean election does. Use `move_leader` to start a new leader epoch.

        Between stopping and starting a broker, this simulates a crash that lost the last writes.
        """
        self._state.truncate(topic, partition, offset, trio.current_time())
        self._rearm()

    def _log_changed(self, topic: str, partition: int) -> None:
        self._state.log_changed(TopicPartition(topic, partition), trio.current_time())
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
        """Append one record to the producer's transaction. If none is open in this log, it starts one (KIP-98).

        Use a producer id that no client has received, since no coordinator manages these transactions.

        Returns:
            The offset of the record.

        Raises:
            Refused: INVALID_PRODUCER_EPOCH for an old epoch.
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

        Args:
            producer_id: The producer.
            commit: True to commit, False to abort.
            producer_epoch: Its epoch.
            partitions: (topic, partition) pairs to write to, with or without an open transaction; None: every partition
                with an open one.

        Raises:
            Refused: INVALID_PRODUCER_EPOCH for an old epoch. Nothing is written then.
        """
        written = self._state.end_transaction(
            producer_id, producer_epoch, partitions, committed=commit, now=trio.current_time()
        )
        self._rearm()
        return written
