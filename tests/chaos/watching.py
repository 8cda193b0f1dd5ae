"""The watch over a run: how far each group has committed, and how long it takes to recover from each fault."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import attrs
import trio

from sarameya import Config, GroupAdmin
from sarameya.errors import SarameyaError
from tests.chaos.plan import Fault

_LOOK_SECONDS = 1.0
_ASK_SECONDS = 10.0


@attrs.define(eq=False)
class Happening:
    """A fault that took place, and what came of it. Times are seconds from the start of the run."""

    fault: Fault
    round: int
    began: float
    concerned: Sequence[str]
    """The components that have to recover from it."""
    did: str = ""
    healed: float | None = None
    ends: Mapping[int, int] = attrs.field(factory=dict)
    """Offsets that the brokers had acknowledged when it was over."""
    recovered: dict[str, float] = attrs.field(factory=dict)
    """Component -> when its group had committed all of these."""

    @property
    def recovery(self) -> float | None:
        """Seconds until every group it concerns had caught up."""
        if self.healed is None or len(self.recovered) < len(self.concerned):
            return None
        return max(self.recovered.values()) - self.healed

    def __str__(self) -> str:
        took = "not recovered" if self.recovery is None else f"recovered after {self.recovery:.1f} s"
        return f"{self.began:8.1f}  round {self.round}  {self.fault}  [{self.did or 'under way'}]  {took}"


class Watch:
    """`committed` of each group, asked each second."""

    def __init__(self, bootstrap: Sequence[str], groups: Mapping[str, str], began: float) -> None:
        """`groups`: component -> group."""
        self._bootstrap = bootstrap
        self._groups = groups
        self._began = began
        self.happenings: list[Happening] = []
        self.committed: dict[str, dict[int, int]] = {component: {} for component in groups}
        self.trouble = ""
        """The last error of asking."""

    def now(self) -> float:
        return trio.current_time() - self._began

    def has(self, component: str, ends: Mapping[int, int]) -> bool:
        """Return whether a component has committed all of these offsets."""
        return all(self.committed[component].get(partition, 0) >= end for partition, end in ends.items())

    def behind(self, ends: Mapping[int, int]) -> str:
        """Describe what groups have not committed; empty if nothing."""
        lacking = [
            f"{component} {partition}: {offsets.get(partition, 0)} of {end}"
            for component, offsets in self.committed.items()
            for partition, end in sorted(ends.items())
            if offsets.get(partition, 0) < end
        ]
        return ", ".join(lacking)

    async def run(self) -> None:
        """Look, until cancelled."""
        while True:
            try:
                with trio.fail_after(_ASK_SECONDS):
                    await self._look()
            except (SarameyaError, trio.TooSlowError) as error:
                self.trouble = f"{type(error).__name__}: {error}"  # brokers are down: they are asked again
            await trio.sleep(_LOOK_SECONDS)

    async def _look(self) -> None:
        async with GroupAdmin(self._bootstrap, Config(request_timeout=5.0), lambda event: None) as admin:
            for component, group in self._groups.items():
                found = await admin.committed(group)
                self.committed[component] |= {place.partition: commit.offset for place, commit in found.items()}
        for happening in self.happenings:
            self._settle(happening)

    def _settle(self, happening: Happening) -> None:
        for one in happening.concerned:
            if happening.healed is not None and one not in happening.recovered and self.has(one, happening.ends):
                happening.recovered[one] = self.now()
