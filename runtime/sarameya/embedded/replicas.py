"""One partition's replicas: which brokers have one, who leads, who is in sync, and how far the others have got. Pure.

There is one log, the leader's; a follower has it too, as soon as it is written. One that is held back, for tests, has
it up to an offset only. Owns the rules of who may lead, who is in sync and who is the best to read from (KIP-392);
what a change of leader does to the log is `topics.Partition`'s, to groups `cluster_state`'s.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import attrs

NO_LEADER = -1


@attrs.frozen(slots=True)
class ReplicaLag:
    """How far a follower has got that is held back."""

    end_offset: int
    """Of its log: nothing from here on is there."""
    high_watermark: int
    """What it knows of the leader's: nothing from here on is shown to readers."""
    in_sync: bool
    """Whether the leader still waits for it, so that nothing is shown to anybody that it does not have."""

    def cut_off(self, offset: int) -> ReplicaLag:
        return attrs.evolve(
            self, end_offset=min(self.end_offset, offset), high_watermark=min(self.high_watermark, offset)
        )


class Replicas:
    """`ids`: the brokers that have a replica, who leads first; `up`: those of all brokers that are up."""

    def __init__(self, ids: Sequence[int], up: Collection[int]) -> None:
        self.ids = list(ids)
        self.leader = NO_LEADER
        self.in_sync = [node_id for node_id in ids if node_id in up]
        self._lags: dict[int, ReplicaLag] = {}
        self.leader = self.elect(up)

    @property
    def lags(self) -> Mapping[int, ReplicaLag]:
        """The followers that are held back."""
        return self._lags

    @property
    def replicated_to(self) -> int | None:
        """What all in-sync replicas have ends here; None: where the leader's log does."""
        return min((lag.end_offset for node_id, lag in self._lags.items() if node_id in self.in_sync), default=None)

    def elect(self, up: Collection[int]) -> int:
        """Who should lead: the first in sync that is up; NO_LEADER if there is none, for a log that lags would lose
        records."""
        return next((node_id for node_id in self.ids if node_id in self.in_sync and node_id in up), NO_LEADER)

    def lead(self, node_id: int, up: Collection[int]) -> ReplicaLag | None:
        """`node_id` (or NO_LEADER) leads from now on. Says how far it had got if it lags: its log is the log now.

        One that had no replica gets one, in place of the last, as when a partition is reassigned.
        """
        lag = self._lags.pop(node_id, None)
        if node_id not in (NO_LEADER, *self.ids):
            for moved in self.ids[-1:]:
                self._lags.pop(moved, None)
            self.ids[-1:] = [node_id]
        self.leader = node_id
        if lag is not None:
            self.cut_off(lag.end_offset)
            if not lag.in_sync:
                self.in_sync = [node_id]
        self.settle(up)
        return lag

    def settle(self, up: Collection[int]) -> None:
        """Find out who is in sync now: who is up and not too far behind. While nobody leads, who was last."""
        if self.leader != NO_LEADER:
            good = [node_id for node_id in self.ids if node_id == self.leader or self._keeps_up(node_id, up)]
            # Who comes back stands behind the others, as in Kafka.
            self.in_sync = [n for n in self.in_sync if n in good] + [n for n in good if n not in self.in_sync]
        else:
            self.in_sync = [node_id for node_id in self.in_sync if node_id in up] or self.in_sync[-1:]

    def _keeps_up(self, node_id: int, up: Collection[int]) -> bool:
        lag = self._lags.get(node_id)
        return node_id in up and (lag is None or lag.in_sync)

    def hold(self, node_id: int, lag: ReplicaLag) -> None:
        self._lags[node_id] = lag

    def release(self, node_id: int) -> None:
        self._lags.pop(node_id, None)

    def cut_off(self, offset: int) -> None:
        """The log ends at `offset` now, and so do all that were further."""
        self._lags = {node_id: lag.cut_off(offset) for node_id, lag in self._lags.items()}

    def nearest(self, rack: str, racks: Mapping[int, str], offset: int, *, log_start: int, log_end: int) -> int | None:
        """Who should be read from in `rack`, as Kafka's RackAwareReplicaSelector has it; None: the leader.

        The in-sync follower there that has got furthest, if it has `offset` at all; of equals the one with the highest
        id. `log_start` and `log_end`: where the leader's log starts and ends.
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
