"""Rows counted by the job that computes them: no pass of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import attrs

from sarameya_handlers.spark.engines.connect import is_connect

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_ROWS = "rows"


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
        """Rows of the first job that has run; None where Spark found that it need not compute them."""
        from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]

        try:
            found: dict[str, int] = self._observed.get
        except Py4JJavaError:  # pyspark asserts that there is a count where there is none
            return None
        return found.get(_ROWS)


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
