"""The one backoff: exponential, jittered, bounded. Pure: the random source and the time are arguments."""

from __future__ import annotations

import math
import random

import attrs

from sarameya.config import Config


@attrs.frozen(slots=True)
class Backoff:
    """`delay(attempt)`: initial · 2^(attempt−1), ±20 % of jitter, but never more than `maximum` (KIP-580).

    Seconds throughout. Jitter keeps members that failed together from returning together. `max_attempts` and
    `max_seconds` bound what is being tried again: see `gives_up`.
    """

    initial: float
    maximum: float
    jitter: float = 0.2
    rng: random.Random = attrs.field(factory=random.Random, repr=False, eq=False)
    max_attempts: float = math.inf
    max_seconds: float = math.inf

    @classmethod
    def of(cls, config: Config, rng: random.Random | None = None) -> Backoff:
        """The backoff a configuration asks for; an `rng` with a seed makes its delays the same in every run."""
        return cls(
            config.retry_backoff,
            config.retry_backoff_max,
            rng=rng or random.Random(),
            max_attempts=math.inf if config.retry_max_attempts is None else config.retry_max_attempts,
            max_seconds=math.inf if config.retry_timeout is None else config.retry_timeout,
        )

    def delay(self, attempt: int) -> float:
        """Seconds to wait before retry number `attempt` (the first is 1)."""
        # The exponent is capped: 2**1000 would overflow a float long before `min` could help.
        bare = min(self.initial * 2.0 ** min(attempt - 1, 30), self.maximum)
        return min(bare * self.rng.uniform(1 - self.jitter, 1 + self.jitter), self.maximum)

    def gives_up(self, attempts: Attempts, now: float) -> bool:
        """Whether what has been tried so often, and for so long, is not to be tried once more."""
        return attempts.attempt > self.max_attempts or now - attempts.since >= self.max_seconds


@attrs.frozen(slots=True)
class Attempts:
    """What is being tried again: visible to observers, so that silence is never mistaken for health."""

    attempt: int
    """The number of the retry that comes next; as many tries have failed."""
    since: float
    """When the first try failed, on the caller's clock."""
    cause: str

    @staticmethod
    def first(now: float, cause: str) -> Attempts:
        return Attempts(1, now, cause)

    def again(self, cause: str) -> Attempts:
        return Attempts(self.attempt + 1, self.since, cause)
