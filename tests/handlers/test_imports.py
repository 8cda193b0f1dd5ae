from __future__ import annotations

import subprocess
import sys


def test_handlers_import_neither_pyspark_nor_pyarrow() -> None:
    program = (
        "import sys, sarameya_handlers\n"
        "sink = sarameya_handlers.SparkSink.from_options({'path': 'x', 'spark': {'master': 'local[1]'}})\n"
        "print([name for name in ('pyspark', 'py4j', 'pyarrow', 'pandas') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
