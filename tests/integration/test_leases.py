"""The JVM that commits also holds the lease of a table, since it may outlive its process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from sarameya_handlers.spark.engines import lease
from sarameya_handlers.spark.engines.lease import take_lease
from sarameya_handlers.spark.errors import LandingError
from tests.integration.warm_spark import end_warm_spark

pytestmark = pytest.mark.integration

HOLD = """
import sys
from pathlib import Path
from sarameya_handlers import SparkOptions
from sarameya_handlers.spark.engines.jvm import spark_jvm
from sarameya_handlers.spark.engines.lease import take_lease
first = spark_jvm.start(SparkOptions(master="local[1]"))
take_lease(Path(sys.argv[1]), "no")
first.stop()
second = spark_jvm.start(SparkOptions(master="local[1]"))
print(second.session.sparkContext._jvm.java.lang.ProcessHandle.current().pid(), flush=True)
sys.stdin.read()
"""
"""A program that takes a lease, and then replaces its first JVM by a second one."""


def test_jvm_outliving_its_process_keeps_the_lease(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    end_warm_spark()  # this process must have no JVM
    file = tmp_path / "lock"
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(file)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        jvm = int(holder.stdout.readline())
        os.kill(jvm, signal.SIGSTOP)
        try:
            holder.kill()
            holder.wait()
            with monkeypatch.context() as patched:
                patched.setattr(lease, "ORPHAN_ENDS_WITHIN", 0.0)
                with pytest.raises(LandingError, match="JVM of a process that has died"):
                    take_lease(file, "somebody else lands")
        finally:
            os.kill(jvm, signal.SIGCONT)
        take_lease(file, "somebody else lands")
