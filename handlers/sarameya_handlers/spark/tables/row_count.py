"""Count rows in the job that computes them, without another job."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Self

import attrs

from sarameya_handlers.spark.engines.connect import is_connect

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_ROWS = "rows"
_REPORTED_WITHIN = 5.0
"""Seconds after a job's end within which Spark's listeners report its counts."""
_POLL_INTERVAL = 0.02


@attrs.frozen(slots=True)
class RowCount:
    """A frame, and the number of rows that its first job computed."""

    frame: DataFrame
    _observed: Any

    @classmethod
    def of(cls, frame: DataFrame) -> Self:
        """Count the rows of a frame. Use the returned count's `frame` in its place."""
        functions, observed = functions_for(frame), _observation(frame)
        counted = functions.count(functions.lit(1)).alias(_ROWS)
        return cls(frame.observe(observed, counted), observed)

    @property
    def rows(self) -> int | None:
        """Rows that the first job computed; None if Spark need not compute them or has not reported the count."""
        if not _is_complete(self._observed):
            return None
        from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]

        try:
            found: dict[str, int] = self._observed.get
        except Py4JJavaError:  # pyspark asserts that a count exists
            return None
        return found.get(_ROWS)


def _is_complete(observed: Any) -> bool:
    """Wait for a classic observation to complete. Return False if it does not.

    pyspark's own wait never ends if no job reads the frame (a transform may ignore it), or a busy driver drops events.
    """
    java = getattr(observed, "_jo", None)
    deadline = time.monotonic() + _REPORTED_WITHIN
    while java is not None and not java.future().isCompleted():
        if time.monotonic() > deadline:
            return False
        time.sleep(_POLL_INTERVAL)
    return True


def functions_for(frame: DataFrame) -> Any:
    """Return the functions module for this frame: Spark Connect has its own."""
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
