"""Lazy import of kafka-python and aiokafka. Must run before any other module of this package.

The `__init__` of both libraries imports their whole clients, which takes 150 ms. This package never uses these
clients. So this module puts the packages into `sys.modules` without running their `__init__`. The first access to a
name of the `__init__` runs it, so `from kafka import KafkaConsumer` still works in a program that also uses
kafka-python.

Python 3.11 also warns about the way in which kafka-python reads its schemas. The warning is suppressed: otherwise
programs that turn warnings into errors could not import this package. So a package whose modules import messages of
Kafka calls `import_schemas` in its `__init__`.
Test: `tests/test_imports.py::test_schemas_are_imported_without_their_warning`.
"""

from __future__ import annotations

import importlib
import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec, module_from_spec
from types import ModuleType
from typing import Any

_LAZY_PACKAGES = ("kafka", "kafka.net", "aiokafka", "aiokafka.record")
_init_lock = threading.RLock()
_running: set[str] = set()
"""Packages whose `__init__` runs."""


class _LazyPackage(ModuleType):
    """A package whose `__init__` has not run yet. Its submodules can be imported."""

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("__") and find_spec(f"{self.__name__}.{name}") is not None:
            return importlib.import_module(f"{self.__name__}.{name}")
        with _init_lock:  # another thread waits until `__init__` has run
            if self.__class__ is _LazyPackage:
                if self.__name__ in _running:  # `__init__` itself imports from the package, too early
                    raise AttributeError(f"partially initialized module {self.__name__!r} has no attribute {name!r}")
                self._run_init()
        return getattr(self, name)

    def _run_init(self) -> None:
        assert self.__spec__ is not None
        assert self.__spec__.loader is not None
        _running.add(self.__name__)
        try:
            self.__spec__.loader.exec_module(self)
            self.__class__ = ModuleType  # type: ignore[assignment]
        finally:
            _running.discard(self.__name__)


def _make_lazy(name: str) -> None:
    """Put the package into `sys.modules` without running its `__init__`, unless it is there already."""
    if name not in sys.modules and (spec := find_spec(name)) is not None:
        module = module_from_spec(spec)
        module.__class__ = _LazyPackage
        sys.modules[name] = module
        parent, _, child = name.rpartition(".")
        if parent:
            setattr(sys.modules[parent], child, module)


@contextmanager
def schema_warnings_ignored() -> Iterator[None]:
    """Suppress the warning of kafka-python, which reads a schema whenever it creates the class of a Kafka message."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", r"(read|open)_text is deprecated", DeprecationWarning)
        yield


def import_schemas(*names: str) -> None:
    """Import these modules of kafka-python, and with them the schemas of their messages, without a warning."""
    with schema_warnings_ignored():
        for name in names:
            importlib.import_module(name)


for _name in _LAZY_PACKAGES:
    _make_lazy(_name)
