"""Modules that `import sarameya` imports, and those that it must not."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = pytest.mark.integration

UNUSED = (
    "kafka.admin",
    "kafka.consumer",
    "kafka.producer",
    "kafka.net.manager",
    "aiokafka.client",
    "aiokafka.consumer",
    "aiokafka.producer",
    "pyarrow",
    "pyspark",
    "starlette",
    "prometheus_client",
    "opentelemetry",
    "rich",
)


def output_of(code: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_clients_and_extras_that_are_not_used_are_not_imported() -> None:
    found = output_of("import sarameya, sys; print(*sys.modules)")
    assert [name for name in UNUSED if name in found] == []


@pytest.mark.parametrize(
    "code",
    [
        "import sarameya; from kafka import KafkaConsumer, TopicPartition",
        "import sarameya; from aiokafka import AIOKafkaConsumer",
        "import sarameya; from kafka.net import KafkaConnection",
        "import sarameya, kafka; kafka.KafkaProducer; kafka.__version__",
        "import sarameya; from kafka import *; KafkaAdminClient",
        "from kafka import KafkaConsumer; import sarameya",
        "import aiokafka; import sarameya",
    ],
)
def test_both_libraries_work_as_ever_in_the_same_program(code: str) -> None:
    # kafka-python warns when it is imported first, and so not by us.
    assert output_of(f"import warnings; warnings.simplefilter('ignore')\n{code}\nprint('done')") == ["done"]
