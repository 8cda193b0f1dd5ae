"""Observation of a run: the committed offsets of each group, and the recovery time of each fault."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import attrs
import trio

from sarameya import Config, GroupAdmin
from sarameya.errors import SarameyaError
from tests.chaos.plan import Fault

_POLL_SECONDS = 1.0
_REQUEST_SECONDS = 10.0


@attrs.define(eq=False)
class Occurrence:
    """An occurrence of a fault, with its effect and the recovery. Times are seconds from the start of the run."""

    fault: Fault
    round: int
    began: float
    concerned: Sequence[str]
    """The components that have to recover from the fault."""
    effect: str = ""
    ended: float | None = None
    acknowledged: Mapping[int, int] = attrs.field(factory=dict)
    """Log end per partition that the brokers had acknowledged when the fault ended."""
    recovered: dict[str, float] = attrs.field(factory=dict)
    """Component -> the time at which its group had committed these log ends."""

    @property
    def recovery(self) -> float | None:
        """Seconds from the end of the fault until every concerned group had caught up; None before that."""
        if self.ended is None or len(self.recovered) < len(self.concerned):
            return None
        return max(self.recovered.values()) - self.ended

    def __str__(self) -> str:
        recovery = "not recovered" if self.recovery is None else f"recovered after {self.recovery:.1f} s"
        return f"{self.began:8.1f}  round {self.round}  {self.fault}  [{self.effect or 'under way'}]  {recovery}"


class Watch:
    """The committed offsets of each group, requested every second.

    Args:
        bootstrap: addresses of brokers.
        groups: component -> group.
        began: the trio time at which the run started.
    """

    def __init__(self, bootstrap: Sequence[str], groups: Mapping[str, str], began: float) -> None:
        self._bootstrap = bootstrap
        self._groups = groups
        self._began = began
        self.occurrences: list[Occurrence] = []
        self.committed: dict[str, dict[int, int]] = {component: {} for component in groups}
        self.last_error = ""
        """The last error of a request for committed offsets."""

    def now(self) -> float:
        return trio.current_time() - self._began

    def has(self, component: str, ends: Mapping[int, int]) -> bool:
        """Return whether a component's group has committed all of these log ends."""
        return all(self.committed[component].get(partition, 0) >= end for partition, end in ends.items())

    def missing_commits(self, ends: Mapping[int, int]) -> str:
        """Describe the partitions whose log end a group has not committed; empty if there are none."""
        missing = [
            f"{component} {partition}: {offsets.get(partition, 0)} of {end}"
            for component, offsets in self.committed.items()
            for partition, end in sorted(ends.items())
            if offsets.get(partition, 0) < end
        ]
        return ", ".join(missing)

    async def run(self) -> None:
        """Request the committed offsets every second, until cancelled."""
        while True:
            try:
                with trio.fail_after(_REQUEST_SECONDS):
                    await self._poll()
            except (SarameyaError, trio.TooSlowError) as error:
                self.last_error = f"{type(error).__name__}: {error}"  # brokers are down: retry at the next poll
            await trio.sleep(_POLL_SECONDS)

    async def _poll(self) -> None:
        async with GroupAdmin(self._bootstrap, Config(request_timeout=5.0), lambda event: None) as admin:
            for component, group in self._groups.items():
                found = await admin.committed(group)
                self.committed[component] |= {tp.partition: commit.offset for tp, commit in found.items()}
        for occurrence in self.occurrences:
            self._record_recovery(occurrence)

    def _record_recovery(self, occurrence: Occurrence) -> None:
        if occurrence.ended is None:
            return
        for component in occurrence.concerned:
            if component not in occurrence.recovered and self.has(component, occurrence.acknowledged):
                occurrence.recovered[component] = self.now()
