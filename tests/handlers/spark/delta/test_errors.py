"""Delta's errors, in the texts of py4j, of pyspark and of Spark Connect."""

from __future__ import annotations

import pytest

from sarameya_handlers.spark.delta.errors import condition_of, is_missing, is_overtaken

BY_PY4J = """An error occurred while calling o123.save.
: io.delta.exceptions.ConcurrentTransactionException: [DELTA_CONCURRENT_TRANSACTION.WITHOUT_HINT] This error occurs when
\tat org.apache.spark.sql.delta.DeltaErrorsBase.concurrentTransactionException(DeltaErrors.scala:2352)"""
BY_CONNECT = (
    "(io.delta.exceptions.ConcurrentTransactionException) [DELTA_CONCURRENT_TRANSACTION] This error occurs when"
)
CAPTURED = "[DELTA_METADATA_CHANGED] MetadataChangedException: The metadata of the Delta table has been changed by"


@pytest.mark.parametrize("text", [BY_PY4J, BY_CONNECT, CAPTURED])
def test_concurrent_commit_error_is_recognized(text: str) -> None:
    assert is_overtaken(RuntimeError(text))
    assert not is_missing(RuntimeError(text))


@pytest.mark.parametrize(
    "text", ["[DELTA_METADATA_MISMATCH] A metadata mismatch was detected", "no room", "[id] [NAME] [x]", ""]
)
def test_other_errors_are_not_concurrent_commits(text: str) -> None:
    assert not is_overtaken(RuntimeError(text))
    assert not is_missing(RuntimeError(text))


def test_error_text_lost_with_the_jvm_has_no_condition() -> None:
    class Lost(Exception):
        def __str__(self) -> str:
            raise ConnectionError("no JVM")

    assert condition_of(Lost()) == ""
