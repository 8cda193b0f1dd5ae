"""When to restart what failed. Pure: the time that something lived is an argument."""

from __future__ import annotations

import attrs

from sarameya.protocol.backoff import Backoff
from sarameya.service.app_file import ServiceSection


@attrs.define
class Restarts:
    """The failures of one member or worker, and how long to wait after each."""

    policy: ServiceSection
    failures_in_a_row: int = attrs.field(default=0, init=False)

    def delay_after(self, lived: float) -> float:
        """Seconds to wait before the restart of something that lived for `lived` seconds and failed."""
        # A life longer than the longest wait was a healthy one: its failure is a first one again.
        healthy = lived > self.policy.restart_backoff_max
        self.failures_in_a_row = 1 if healthy else self.failures_in_a_row + 1
        return Backoff(self.policy.restart_backoff, self.policy.restart_backoff_max).delay(self.failures_in_a_row)
