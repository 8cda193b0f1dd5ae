"""Runs an audit's blocking calls in a thread, with the SparkSession that the table needs, or without one."""

from __future__ import annotations

import logging
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast

import trio

from sarameya import SarameyaError
from sarameya.service import Steps
from sarameya_handlers.spark.engines.engine import Engine, SparkEngine
from sarameya_handlers.spark.errors import cause_of
from sarameya_handlers.spark.options import SparkOptions
from sarameya_handlers.spark.tables.table import Table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

T = TypeVar("T")


class SparkQueryError(SarameyaError):
    """Spark could not answer a query about the table."""


class Run(Protocol):
    """Runs `work(session)` in a thread, and returns or raises its result."""

    def __call__(self, work: Callable[[SparkSession], T]) -> Awaitable[T]: ...


async def without_spark(work: Callable[[SparkSession], T]) -> T:
    """Run `work` for a table that does not need Spark: the session is None."""
    return await trio.to_thread.run_sync(work, cast("SparkSession", None), abandon_on_cancel=True)


@asynccontextmanager
async def open_run(
    tables: Iterable[Table], options: SparkOptions, progress: Steps, *, by_spark: bool = False
) -> AsyncIterator[Run]:
    """Open a runner of blocking calls; with a session if one of the tables needs one, or `by_spark` is set."""
    if not (by_spark or any(table.needs_spark for table in tables)):
        yield without_spark
        return
    progress(f"starting Spark ({options.master})")
    async with SparkEngine(options, log_at=logging.DEBUG) as engine:
        yield _by(engine)


def _by(engine: Engine) -> Run:
    async def run(work: Callable[[SparkSession], Any]) -> Any:
        try:
            return await engine.run(lambda spark, _: work(spark), tag=f"sarameya-audit-{uuid.uuid4().hex}")
        except SarameyaError:
            raise
        except Exception as error:
            # Read the text now: once Spark has stopped, the error has none.
            raise SparkQueryError(
                f"{cause_of(error)}; check that Spark has the jars and catalogs of the table (--conf)"
            ) from error

    return run
