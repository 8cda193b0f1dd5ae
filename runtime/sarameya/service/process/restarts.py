"""Restarts after failures: the policy, and the wait."""

from __future__ import annotations

import logging
from collections.abc import Callable

import attrs
import trio

from sarameya.protocol.backoff import Backoff
from sarameya.service.app.app_file import ServiceSection
from sarameya.service.output.error_report import error_lines, is_permanent
from sarameya.service.process.signals import Stop

logger = logging.getLogger("sarameya")


@attrs.define
class Restarts:
    """The failures of one member or worker, and the delay after each."""

    policy: ServiceSection
    failures_in_a_row: int = attrs.field(default=0, init=False)

    def is_final(self, error: Exception, stop: Stop) -> bool:
        """Return whether to raise `error`: by the policy, since a person must act first, or since the service stops."""
        return self.policy.on_failure == "stop" or is_permanent(error) or stop.is_requested

    def delay_after(self, uptime: float) -> float:
        """Count a failure after `uptime` seconds, and return the seconds to wait before the restart."""
        # After an uptime longer than the longest wait, a failure counts as the first one again.
        healthy = uptime > self.policy.restart_backoff_max
        self.failures_in_a_row = 1 if healthy else self.failures_in_a_row + 1
        return Backoff(self.policy.restart_backoff, self.policy.restart_backoff_max).delay(self.failures_in_a_row)

    async def wait_after(
        self, what: str, error: Exception, uptime: float, stop: Stop, on_restart: Callable[[float, int], None]
    ) -> None:
        """Log that `what` has failed, call `on_restart` with the delay and the failures in a row, and wait."""
        delay = self.delay_after(uptime)
        on_restart(delay, self.failures_in_a_row)
        for line in error_lines(error):
            logger.error("%s failed: %s", what, line)
        logger.warning("restarting the %s in %.1f s (failures in a row: %d)", what, delay, self.failures_in_a_row)
        with trio.move_on_after(delay):
            await stop.wait()
