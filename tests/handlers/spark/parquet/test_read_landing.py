"""`read_landing` while files move between its listing and Spark's. Spark's reader is faked."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, Self

import pytest

from sarameya import HandlerError
from sarameya_handlers import ParquetTable, read_landing
from tests.handlers.spark.parquet.lander import Lander


class Reader:
    """A fake of Spark's reader: each listing misses as many files as the next answer says, or raises it."""

    def __init__(self, *answers: int | Exception) -> None:
        self.read = self
        self.listings = 0
        self._answers = list(answers)

    def option(self, *_: str) -> Self:
        return self

    def schema(self, _: Any) -> Self:
        return self

    def parquet(self, *files: str) -> Any:
        self.listings += 1
        answer = self._answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return SimpleNamespace(inputFiles=lambda: files[answer:])


@pytest.fixture
def landed(tmp_path: Path) -> Path:
    lander = Lander(ParquetTable(tmp_path))
    lander.land()
    lander.land()
    return tmp_path


def test_fault_63_files_missed_by_spark_are_listed_again(landed: Path) -> None:
    spark: Any = Reader(1, Exception("[PATH_NOT_FOUND] Path does not exist: x. SQLSTATE: 42K03"), 0)
    assert len(read_landing(spark, landed).inputFiles()) == 2
    assert spark.listings == 3


def test_fault_63_files_moving_all_the_time_are_an_error(landed: Path) -> None:
    spark: Any = Reader(*[1] * 10)
    with pytest.raises(HandlerError, match="were moved 10 times"):
        read_landing(spark, landed)


def test_other_spark_errors_are_raised_at_once(landed: Path) -> None:
    spark: Any = Reader(ValueError("x"), 0)
    with pytest.raises(ValueError, match="x"):
        read_landing(spark, landed)
