"""Measures where a sink's seconds go, in the calls of its engine and of its table."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Self, TypeVar

import attrs

from bench.land.figures import covered
from bench.land.programs.landing import Stages
from sarameya_handlers.spark import Table
from sarameya_handlers.spark.engines.engine import Check, Engine
from sarameya_handlers.spark.sink.flush import flush, read_links

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

T = TypeVar("T")

FLUSH, LAND, READ_BACK, OTHER = "flush", "land", "read back", "other"
_STAGES: dict[object, str] = {flush: FLUSH, read_links: READ_BACK}
"""Stage of a function that the sink runs with its engine."""


@attrs.define
class StageClock:
    """Spans of time, by stage. Several threads add spans."""

    _now: Callable[[], float] = time.perf_counter
    _start: float = attrs.field(init=False)
    _spans: dict[str, list[tuple[float, float]]] = attrs.field(factory=lambda: defaultdict(list), init=False)

    def __attrs_post_init__(self) -> None:
        self._start = self._now()

    @contextmanager
    def running(self, stage: str) -> Iterator[None]:
        """Add the time of the block to a stage."""
        start = self._now()
        try:
            yield
        finally:
            self._spans[stage].append((start, self._now()))

    @property
    def flushes(self) -> int:
        """Number of flushes."""
        return len(self._spans[FLUSH])

    def stages(self) -> Stages:
        """Return the seconds of each stage since the creation of the clock."""
        flushing, landing, reading_back = (self._seconds(stage) for stage in (FLUSH, LAND, READ_BACK))
        busy = covered(span for stage in (FLUSH, READ_BACK) for span in self._spans[stage])
        return {
            "staging": flushing - landing,
            "writing and linking": landing,
            "reading back": reading_back,
            "opening, heads": self._seconds(OTHER),
            "nothing landing": self._now() - self._start - busy,
        }

    def _seconds(self, stage: str) -> float:
        return sum(end - begin for begin, end in self._spans[stage])


class TimedEngine(Engine):
    """An engine that measures each function that it runs, by stage."""

    def __init__(self, engine: Engine, clock: StageClock) -> None:
        self._engine = engine
        self._clock = clock

    async def __aenter__(self) -> Self:
        await self._engine.__aenter__()
        return self

    async def __aexit__(self, *error: Any) -> None:
        await self._engine.__aexit__(*error)

    @property
    def max_jobs(self) -> int:
        return self._engine.max_jobs

    async def run(self, work: Callable[[SparkSession, Check], T], *, tag: str) -> T:
        stage = _STAGES.get(getattr(work, "func", None), OTHER)

        def timed_work(session: SparkSession, check: Check) -> T:
            with self._clock.running(stage):
                return work(session, check)

        return await self._engine.run(timed_work, tag=tag)


def timed(kind: type[Table], clock: StageClock) -> Callable[..., Table]:
    """Return a class for this kind of table that measures how long batches take to land."""

    class Timed(kind):  # type: ignore[valid-type, misc]
        def land(self, spark: SparkSession, landings: Sequence[Any], *more: Any) -> None:
            with clock.running(LAND):
                super().land(spark, landings, *more)

    return Timed
