"""The replicas of a partition: the brokers with a replica, the leader, the in-sync replicas, and followers' lags. Pure.

All replicas share the leader's log, so a follower has each record as soon as it is appended. A follower that a test
holds back has the log only up to an offset.

This module decides which broker leads, which replicas are in sync, and which replica a consumer should read (KIP-392).
`topics.EmbeddedPartition` applies a leader change to the log, `cluster_state` to groups.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import attrs

NO_LEADER = -1
"""The leader id of a partition without a leader."""


@attrs.frozen(slots=True)
class ReplicaLag:
    """The replication progress of a held follower."""

    end_offset: int
    """End of the follower's log."""
    high_watermark: int
    """The high watermark that the follower knows. It serves no record at or after it."""
    in_sync: bool
    """True if the follower stays in sync, so that the leader's high watermark cannot pass its log end."""

    def truncated(self, offset: int) -> ReplicaLag:
        """Return the lag after the log was truncated at `offset`."""
        return attrs.evolve(
            self, end_offset=min(self.end_offset, offset), high_watermark=min(self.high_watermark, offset)
        )


class Replicas:
    """The replicas of one partition.

    Args:
        ids: Brokers with a replica, the preferred leader first.
        up: All brokers that are up.
    """

    def __init__(self, ids: Sequence[int], up: Collection[int]) -> None:
        self.ids = list(ids)
        self.leader = NO_LEADER
        self.in_sync = [node_id for node_id in ids if node_id in up]
        self._lags: dict[int, ReplicaLag] = {}
        self.leader = self.elect(up)

    @property
    def lags(self) -> Mapping[int, ReplicaLag]:
        """Followers that are held back."""
        return self._lags

    @property
    def replicated_to(self) -> int | None:
        """Offset up to which all in-sync replicas have the log; None: up to its end."""
        return min((lag.end_offset for node_id, lag in self._lags.items() if node_id in self.in_sync), default=None)

    def elect(self, up: Collection[int]) -> int:
        """Return the broker that should lead: the first in-sync replica that is up; NO_LEADER if there is none.

        A replica that is not in sync is not elected, since it would lose records.
        """
        return next((node_id for node_id in self.ids if node_id in self.in_sync and node_id in up), NO_LEADER)

    def lead(self, node_id: int, up: Collection[int]) -> ReplicaLag | None:
        """Make `node_id` (or NO_LEADER) the leader. Return its lag if it was held: its log is now the partition's log.

        A broker without a replica replaces the last broker of `ids`, as when a partition is reassigned.
        """
        lag = self._lags.pop(node_id, None)
        if node_id not in (NO_LEADER, *self.ids):
            for replaced in self.ids[-1:]:
                self._lags.pop(replaced, None)
            self.ids[-1:] = [node_id]
        self.leader = node_id
        if lag is not None:
            self.truncate(lag.end_offset)
            if not lag.in_sync:
                self.in_sync = [node_id]
        self.update_in_sync(up)
        return lag

    def update_in_sync(self, up: Collection[int]) -> None:
        """Recompute the in-sync replicas: brokers that are up and do not lag.

        Without a leader, at least the last in-sync replica stays in the list.
        """
        if self.leader != NO_LEADER:
            caught_up = [node_id for node_id in self.ids if node_id == self.leader or self._keeps_up(node_id, up)]
            # As in Kafka, a broker that comes back is listed after the others.
            self.in_sync = [n for n in self.in_sync if n in caught_up] + [n for n in caught_up if n not in self.in_sync]
        else:
            self.in_sync = [node_id for node_id in self.in_sync if node_id in up] or self.in_sync[-1:]

    def _keeps_up(self, node_id: int, up: Collection[int]) -> bool:
        lag = self._lags.get(node_id)
        return node_id in up and (lag is None or lag.in_sync)

    def hold(self, node_id: int, lag: ReplicaLag) -> None:
        """Hold a follower at `lag`."""
        self._lags[node_id] = lag

    def release(self, node_id: int) -> None:
        """Release a held follower."""
        self._lags.pop(node_id, None)

    def truncate(self, offset: int) -> None:
        """Truncate the view of every held follower at `offset`, the new log end."""
        self._lags = {node_id: lag.truncated(offset) for node_id, lag in self._lags.items()}

    def nearest(self, rack: str, racks: Mapping[int, str], offset: int, *, log_start: int, log_end: int) -> int | None:
        """Return the broker in `rack` to read from, as Kafka's RackAwareReplicaSelector does; None: the leader.

        The choice is the in-sync follower with the highest log end, if it has `offset`; of equals, the one with the
        highest id.

        Args:
            rack: The consumer's rack.
            racks: Rack of each broker that has one.
            offset: The offset to read.
            log_start: Start of the leader's log.
            log_end: End of the leader's log.
        """
        if racks.get(self.leader) == rack or offset < log_start:
            return None
        ends = {
            node_id: self._lags[node_id].end_offset if node_id in self._lags else log_end
            for node_id in self.in_sync
            if racks.get(node_id) == rack
        }
        return max(
            (node_id for node_id, end in ends.items() if end >= offset),
            key=lambda node_id: (ends[node_id], node_id),
            default=None,
        )
