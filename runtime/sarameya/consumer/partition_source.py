"""Source of one partition: the broker from which it is fetched, and the outcome of its last fetches."""

from __future__ import annotations

import math

from sarameya.protocol.backoff import Attempts


class PartitionSource:
    """Source of one partition. The fetcher and the broker consumer call its methods; the claim only reads it."""

    def __init__(self) -> None:
        self.replica: int | None = None
        """Node id of the nearer replica (KIP-392), if the partition is read from one."""
        self.lease_until = -math.inf
        """Time until which the partition is read from `replica` or, if that is None, from its leader."""
        self.attempts: Attempts | None = None
        """Attempts to find the partition's broker since the last valid response; None if there are none."""
        self.found_nothing = False
        """True if the last fetch had no records of this partition."""
        self.unfetched_since = math.inf
        """Time since which no fetch names the partition, on trio's clock; infinite while fetches do."""
        self.looked_up = (-1, -1)
        """Log end and last stable offset, looked up since the last fetch; -1 if unknown."""

    def use(self, replica: int | None, until: float) -> None:
        """Read from this replica, or from the leader if it is None, until this time on trio's clock."""
        self.replica, self.lease_until = replica, until

    def leave_replica(self) -> bool:
        """Return to the leader. Return whether the partition was read from a nearer replica."""
        was_nearer, self.replica = self.replica is not None, None
        return was_nearer

    def retry(self, now: float, cause: str) -> Attempts:
        """Count a failed fetch or search. Return the attempts since the partition was last served."""
        self.attempts = self.attempts.again(cause) if self.attempts else Attempts.first(now, cause)
        return self.attempts

    def served(self) -> None:
        """Record a valid response: it ends the attempts, and replaces older lookups of the log end."""
        self.attempts = None
        self.looked_up = (-1, -1)

    def found(self, *, records: bool) -> None:
        """Record whether the last fetch had records. If not, the next fetch reserves few bytes for the partition."""
        self.found_nothing = not records

    def named(self) -> None:
        """Record that fetches name the partition."""
        self.unfetched_since = math.inf

    def left_out(self, now: float) -> None:
        """Record that fetches do not name the partition."""
        self.unfetched_since = min(self.unfetched_since, now)

    def log_ends(self, end: int, stable: int) -> None:
        """Record a lookup of the log end and the last stable offset, for a time in which no fetch reports them."""
        self.looked_up = end, stable
