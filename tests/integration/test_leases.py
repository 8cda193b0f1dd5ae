"""The committing JVM also holds a table's lease, since it may outlive its process."""

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
"""With a JVM that was started in place of the one for which the lease was taken."""


def test_jvm_outliving_its_process_keeps_the_lease(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    end_warm_spark()  # so that this process has none of its own
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
            with monkeypatch.context() as impatient:
                impatient.setattr(lease, "ORPHAN_ENDS_WITHIN", 0.0)
                with pytest.raises(LandingError, match="JVM of a process that has died"):
                    take_lease(file, "somebody else lands")
        finally:
            os.kill(jvm, signal.SIGCONT)
        take_lease(file, "somebody else lands")
