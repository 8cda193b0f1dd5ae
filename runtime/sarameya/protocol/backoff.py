"""Exponential, jittered, bounded backoff of all retries. Pure: random source and time are arguments."""

from __future__ import annotations

import math
import random

import attrs

from sarameya.config import Config


@attrs.frozen(slots=True)
class Backoff:
    """Delays between retries: initial · 2^(attempt-1), ±20 % of jitter, at most `maximum` (KIP-580).

    All times are seconds. Jitter keeps members that failed together from returning together. `max_attempts` and
    `max_seconds` bound the retries (see `gives_up`).
    """

    initial: float
    maximum: float
    jitter: float = 0.2
    rng: random.Random = attrs.field(factory=random.Random, repr=False, eq=False)
    max_attempts: float = math.inf
    max_seconds: float = math.inf

    @classmethod
    def of(cls, config: Config, rng: random.Random | None = None) -> Backoff:
        """Return the backoff of a configuration. A seeded `rng` gives the same delays in every run."""
        return cls(
            config.retry_backoff,
            config.retry_backoff_max,
            rng=rng or random.Random(),
            max_attempts=math.inf if config.retry_max_attempts is None else config.retry_max_attempts,
            max_seconds=math.inf if config.retry_timeout is None else config.retry_timeout,
        )

    def delay(self, attempt: int) -> float:
        """Return the seconds to wait before retry number `attempt` (the first is 1)."""
        # The exponent is capped: 2**1000 would overflow a float long before `min` could help.
        bare = min(self.initial * 2.0 ** min(attempt - 1, 30), self.maximum)
        return min(bare * self.rng.uniform(1 - self.jitter, 1 + self.jitter), self.maximum)

    def gives_up(self, attempts: Attempts, now: float) -> bool:
        """Return whether the attempts have reached `max_attempts` or `max_seconds`."""
        return attempts.attempt > self.max_attempts or now - attempts.since >= self.max_seconds


@attrs.frozen(slots=True)
class Attempts:
    """Retries of one operation. Observers receive them, so that an operation that fails does not seem healthy."""

    attempt: int
    """Number of the next retry, which is also the number of failed attempts."""
    since: float
    """Time of the first failure, on the caller's clock."""
    cause: str

    @staticmethod
    def first(now: float, cause: str) -> Attempts:
        return Attempts(1, now, cause)

    def again(self, cause: str) -> Attempts:
        return Attempts(self.attempt + 1, self.since, cause)
