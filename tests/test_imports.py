"""Modules that `import sarameya` imports, and those that it must not."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

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

RUNTIME = Path(__file__).parents[1] / "runtime"

# kafka-python and aiokafka are in `sys.modules` without their own code (`sarameya/_kafka_python.py`).
_LAZY = {"kafka", "aiokafka"}
START_MAY_IMPORT = {
    "import sarameya": _LAZY,
    # attrs and cattrs: the app file's errors; msgspec: Message.
    "import sys; sys.argv = ['sarameya', '--help']; import sarameya_main; sarameya_main.main()": _LAZY
    | {"attr", "attrs", "cattr", "cattrs", "msgspec", "typing_extensions"},
}


def output_of(code: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_clients_and_extras_that_are_not_used_are_not_imported() -> None:
    found = output_of("from sarameya import *; import sys; print(*sys.modules)")
    assert [name for name in UNUSED if name in found] == []


@pytest.mark.parametrize("code", START_MAY_IMPORT)
def test_start_imports_no_other_third_party_package(code: str) -> None:
    """A start is as slow as its imports; a new one is a decision, and not an accident."""
    before = {name.partition(".")[0] for name in output_of("import sys; print(*sys.modules)")}
    found = {name.partition(".")[0] for name in output_of(f"{code}; import sys; print('modules:', *sys.modules)")}
    ours = {"sarameya", "sarameya_handlers", "sarameya_main"}
    third_party = {name for name in found - before - ours if find_spec_of(name) is not None}
    assert third_party <= START_MAY_IMPORT[code]


def find_spec_of(name: str) -> str | None:
    """The file of a third-party package; None for the standard library's modules, and for words that are none."""
    if not name.isidentifier() or name in sys.stdlib_module_names or (spec := find_spec(name)) is None:
        return None
    return spec.origin


def schema_modules() -> dict[str, list[str]]:
    """Our modules that import messages of kafka-python, by package."""
    found: dict[str, list[str]] = {}
    for path in sorted((RUNTIME / "sarameya").rglob("*.py")):
        if re.search(r"^from kafka\.(protocol|coordinator)\b", path.read_text(encoding="utf-8"), re.MULTILINE):
            module = ".".join(path.relative_to(RUNTIME).with_suffix("").parts).removesuffix(".__init__")
            found.setdefault(module.rpartition(".")[0], []).append(module)
    return found


@pytest.mark.parametrize("package", schema_modules())
def test_schemas_are_imported_without_their_warning(package: str) -> None:
    """Whichever package is imported first."""
    assert output_of(f"import {', '.join(schema_modules()[package])}; print('done')") == ["done"]


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
