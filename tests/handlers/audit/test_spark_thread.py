from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from sarameya import HandlerError
from sarameya_handlers.audit.spark_thread import SparkQueryError, _by, open_run, without_spark
from sarameya_handlers.spark.errors import LandingError
from sarameya_handlers.spark.options import SparkOptions
from tests.conformance.engines import ThreadEngine
from tests.handlers.audit.fake_table import FakeTable


def raising(error: Exception) -> Callable[[Any], Any]:
    def work(spark: Any) -> Any:
        raise error

    return work


async def test_table_without_spark_gets_no_session() -> None:
    async with open_run([FakeTable()], SparkOptions(), lambda line: None) as run:
        assert run is without_spark
        assert await run(lambda spark: (spark, 7)) == (None, 7)
        with pytest.raises(KeyError):
            await run(raising(KeyError("x")))


async def test_spark_error_is_one_line_with_advice() -> None:
    run = _by(ThreadEngine())
    assert await run(lambda spark: 7) == 7
    with pytest.raises(
        SparkQueryError, match=r"^ValueError: no such format; check that Spark has the jars and catalogs"
    ):
        await run(raising(ValueError("no such format\n\tat org.apache.spark.Stack")))


@pytest.mark.parametrize("error", [HandlerError("no such version"), LandingError("Spark has died")])
async def test_errors_of_the_project_are_raised_unchanged(error: Exception) -> None:
    with pytest.raises(type(error), match=str(error)):
        await _by(ThreadEngine())(raising(error))
