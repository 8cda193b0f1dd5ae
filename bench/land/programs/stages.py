"""Where a sink's seconds go, told by its engine and its table as the sink calls them."""

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

FLUSH, LAND, FOUND, OTHER = "flush", "land", "found", "other"
_WORKS: dict[object, str] = {flush: FLUSH, read_links: FOUND}


@attrs.define
class StageClock:
    """Spans of time, by what they were for. Several threads add to it."""

    _now: Callable[[], float] = time.perf_counter
    _began: float = attrs.field(init=False)
    _spans: dict[str, list[tuple[float, float]]] = attrs.field(factory=lambda: defaultdict(list), init=False)

    def __attrs_post_init__(self) -> None:
        self._began = self._now()

    @contextmanager
    def running(self, what: str) -> Iterator[None]:
        began = self._now()
        try:
            yield
        finally:
            self._spans[what].append((began, self._now()))

    @property
    def flushes(self) -> int:
        return len(self._spans[FLUSH])

    def stages(self) -> Stages:
        """Those of all since it began."""
        flushing, landing, finding = (self._seconds(what) for what in (FLUSH, LAND, FOUND))
        busy = covered(span for what in (FLUSH, FOUND) for span in self._spans[what])
        return {
            "staging": flushing - landing,
            "writing and linking": landing,
            "reading back": finding,
            "opening, heads": self._seconds(OTHER),
            "nothing landing": self._now() - self._began - busy,
        }

    def _seconds(self, what: str) -> float:
        return sum(end - begin for begin, end in self._spans[what])


class TimedEngine(Engine):
    """An engine whose works are timed, each by what it is for."""

    def __init__(self, engine: Engine, clock: StageClock) -> None:
        self._engine = engine
        self._clock = clock

    async def __aenter__(self) -> Self:
        await self._engine.__aenter__()
        return self

    async def __aexit__(self, *what: Any) -> None:
        await self._engine.__aexit__(*what)

    @property
    def max_jobs(self) -> int:
        return self._engine.max_jobs

    async def run(self, work: Callable[[SparkSession, Check], T], *, tag: str) -> T:
        what = _WORKS.get(getattr(work, "func", None), OTHER)

        def timed_work(session: SparkSession, check: Check) -> T:
            with self._clock.running(what):
                return work(session, check)

        return await self._engine.run(timed_work, tag=tag)


def timed(kind: type[Table], clock: StageClock) -> Callable[..., Table]:
    """The same kind of table, whose landings are timed."""

    class Timed(kind):  # type: ignore[valid-type, misc]
        def land(self, spark: SparkSession, landings: Sequence[Any], *what: Any) -> None:
            with clock.running(LAND):
                super().land(spark, landings, *what)

    return Timed
