"""Rows counted by the job that computes them: no pass of its own."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Self

import attrs

from sarameya_handlers.spark.engines.connect import is_connect

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_ROWS = "rows"
_TOLD_WITHIN = 5.0
"""Seconds after a job's end in which Spark's listeners have told what it has counted."""
_LOOK_AGAIN = 0.02


@attrs.frozen(slots=True)
class RowCount:
    """A frame, and the number of rows that its first job has computed."""

    frame: DataFrame
    _observed: Any

    @classmethod
    def of(cls, frame: DataFrame) -> Self:
        """Count the rows of `frame`: use the count's own `frame` in its place."""
        functions, observed = functions_for(frame), _observation(frame)
        counted = functions.count(functions.lit(1)).alias(_ROWS)
        return cls(frame.observe(observed, counted), observed)

    @property
    def rows(self) -> int | None:
        """Rows of the first job that has run; None where Spark found that it need not compute them, or has not told."""
        if not _has_told(self._observed):
            return None
        from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]

        try:
            found: dict[str, int] = self._observed.get
        except Py4JJavaError:  # pyspark asserts that there is a count where there is none
            return None
        return found.get(_ROWS)


def _has_told(observed: Any) -> bool:
    """Wait for a classic observation, which itself waits for ever: for a frame that no job has read (a transform may
    make its rows of nothing), or where the events of a busy driver were dropped."""
    java = getattr(observed, "_jo", None)
    deadline = time.monotonic() + _TOLD_WITHIN
    while java is not None and not java.future().isCompleted():
        if time.monotonic() > deadline:
            return False
        time.sleep(_LOOK_AGAIN)
    return True


def functions_for(frame: DataFrame) -> Any:
    """Return the module of functions that this frame takes: Spark Connect's are another one's."""
    if is_connect(frame):
        from pyspark.sql.connect import functions as connect_functions

        return connect_functions
    from pyspark.sql import functions

    return functions


def _observation(frame: DataFrame) -> Any:
    if is_connect(frame):
        from pyspark.sql.connect.observation import Observation as ConnectObservation

        return ConnectObservation()
    from pyspark.sql import Observation

    return Observation()
