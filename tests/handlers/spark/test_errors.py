from __future__ import annotations

from sarameya_handlers.spark.errors import cause_of

JAVA = """An error occurred while calling o86.parquet.
: org.apache.spark.SparkException: [TASK_WRITE_FAILED] Task failed while writing rows.
\tat org.apache.spark.sql.errors.QueryExecutionErrors$.taskFailedWhileWritingRowsError(QueryExecutionErrors.scala:776)
Caused by: org.apache.spark.SparkException: Job aborted
\tat org.apache.spark.Some.thing(Some.scala:1)
\t... 17 more
Caused by: java.io.IOException: No space left on device
\t... 20 more
"""


def test_cause_of_a_java_error_is_failure_and_reason() -> None:
    assert cause_of(RuntimeError(JAVA)) == (
        "RuntimeError: org.apache.spark.SparkException: [TASK_WRITE_FAILED] Task failed while writing rows.; "
        "java.io.IOException: No space left on device"
    )


def test_cause_of_a_python_error_is_its_text() -> None:
    assert cause_of(OSError(28, "No space left on device")) == "OSError: [Errno 28] No space left on device"


def test_cause_lost_with_the_jvm_is_reported() -> None:
    class JavaError(Exception):
        def __str__(self) -> str:
            raise ConnectionRefusedError

    assert cause_of(JavaError()) == "JavaError (its text was lost with Spark's JVM)"


def test_cause_of_a_call_without_a_jvm_names_the_call() -> None:
    text = "An error occurred while calling o39.range"
    assert cause_of(RuntimeError(text)) == f"RuntimeError: {text}"
