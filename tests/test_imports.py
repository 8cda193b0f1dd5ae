"""Modules that `import sarameya` imports, and those that it must not."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib.machinery import PathFinder
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
    "aiokafka.util",
    "asyncio",
    "importlib.metadata",
    "pyarrow",
    "pyspark",
    "starlette",
    "prometheus_client",
    "opentelemetry",
    "rich",
)

RUNTIME = Path(__file__).parents[1] / "runtime"

# kafka-python and aiokafka are in `sys.modules` without their own `__init__` (`sarameya/_kafka_python.py`).
_LAZY = {"kafka", "aiokafka"}
_CODECS = {"backports", "cramjam", "google_crc32c", "lz4", "xxhash"}
# idna, outcome, sniffio and sortedcontainers belong to trio, typing_extensions to aiokafka.
_CLIENT = {
    "attr",
    "attrs",
    "idna",
    "msgspec",
    "outcome",
    "sniffio",
    "sortedcontainers",
    "trio",
    "typing_extensions",
} | _CODECS
START_MAY_IMPORT = {
    "import sarameya": _LAZY,
    "from sarameya import ConsumerGroup": _LAZY | _CLIENT,
    # attrs and cattrs for the app file's errors, msgspec for Message.
    "import sys; sys.argv = ['sarameya', '--help']; import sarameya_main; sarameya_main.main()": _LAZY
    | {"attr", "attrs", "cattr", "cattrs", "msgspec", "typing_extensions"},
}


def output_of(code: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_unused_clients_and_extras_are_not_imported() -> None:
    found = output_of("from sarameya import *; import sys; print(*sys.modules)")
    assert [name for name in UNUSED if name in found] == []


@pytest.mark.parametrize("code", START_MAY_IMPORT)
def test_start_imports_no_other_third_party_package(code: str) -> None:
    """Imports make the start slow, so a new one must be deliberate."""
    before = {name.partition(".")[0] for name in output_of("import sys; print(*sys.modules)")}
    found = {name.partition(".")[0] for name in output_of(f"{code}; import sys; print('modules:', *sys.modules)")}
    assert "sarameya" in found
    third_party = {name for name in found - before if is_third_party(name)}
    assert third_party <= START_MAY_IMPORT[code]


def is_third_party(name: str) -> bool:
    """Return True for a third-party package, not for words of a help text or modules created by compiled code."""
    spec = PathFinder.find_spec(name) if name.isidentifier() and not name.startswith("sarameya") else None
    if spec is None:
        return False
    places = [*(spec.submodule_search_locations or ()), spec.origin or ""]
    return any("site-packages" in Path(place).parts for place in places)


def test_third_party_packages_are_recognised() -> None:
    assert all(map(is_third_party, ("attrs", "backports", "kafka", "trio")))
    assert not any(map(is_third_party, ("sarameya", "asyncio", "sysconfig", "COMMAND", "config", "_cython_3_2_4")))


def schema_modules() -> dict[str, list[str]]:
    """Return the project's modules that import messages of kafka-python, by package."""
    found: dict[str, list[str]] = {}
    for path in sorted((RUNTIME / "sarameya").rglob("*.py")):
        if re.search(r"^from kafka\.(protocol|coordinator)\b", path.read_text(encoding="utf-8"), re.MULTILINE):
            module = ".".join(path.relative_to(RUNTIME).with_suffix("").parts).removesuffix(".__init__")
            found.setdefault(module.rpartition(".")[0], []).append(module)
    return found


@pytest.mark.parametrize("package", schema_modules())
def test_schemas_are_imported_without_their_warning(package: str) -> None:
    """The order of the imports must not matter."""
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
def test_kafka_libraries_still_work_in_the_same_program(code: str) -> None:
    # kafka-python warns if it is imported first, before sarameya can suppress the warning.
    assert output_of(f"import warnings; warnings.simplefilter('ignore')\n{code}\nprint('done')") == ["done"]
