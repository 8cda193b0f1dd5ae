"""The one backoff: exponential, jittered, bounded. Pure: the random source and the time are arguments."""

from __future__ import annotations

import random

import attrs


@attrs.frozen(slots=True)
class Backoff:
    """`delay(attempt)`: initial · 2^(attempt−1), ±20 % of jitter, but never more than `maximum` (KIP-580).

    Seconds throughout. Jitter keeps members that failed together from returning together.
    """

    initial: float
    maximum: float
    jitter: float = 0.2
    rng: random.Random = attrs.field(factory=random.Random, repr=False, eq=False)

    def delay(self, attempt: int) -> float:
        """Seconds to wait before retry number `attempt` (the first is 1)."""
        # The exponent is capped: 2**1000 would overflow a float long before `min` could help.
        bare = min(self.initial * 2.0 ** min(attempt - 1, 30), self.maximum)
        return min(bare * self.rng.uniform(1 - self.jitter, 1 + self.jitter), self.maximum)


@attrs.frozen(slots=True)
class Attempts:
    """What is being tried again: visible to observers, so that silence is never mistaken for health."""

    attempt: int
    since: float
    """When the first try failed, on the caller's clock."""
    cause: str

    @staticmethod
    def first(now: float, cause: str) -> Attempts:
        return Attempts(1, now, cause)

    def again(self, cause: str) -> Attempts:
        return Attempts(self.attempt + 1, self.since, cause)
