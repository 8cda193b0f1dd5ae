"""Imports of kafka-python and aiokafka, before anything else of this package.

Both libraries import their whole clients in the `__init__` of their packages: 150 ms, for clients that are never used
here. So these packages are created without running their `__init__`. That runs at the first use of a name from it, so
`from kafka import KafkaConsumer` works as ever for a program that also uses kafka-python.

Python 3.11 also warns about the way in which kafka-python reads its schemas; users who turn warnings into errors could
not import this package.
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

_LAZY_PACKAGES = ("kafka", "kafka.net", "aiokafka")
_running = threading.RLock()


class _LazyPackage(ModuleType):
    """A package whose `__init__` has not run yet. Its submodules can be imported."""

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("__") and find_spec(f"{self.__name__}.{name}") is not None:
            return importlib.import_module(f"{self.__name__}.{name}")
        with _running:
            if self.__class__ is _LazyPackage:
                self.__class__ = ModuleType  # type: ignore[assignment]
                assert self.__spec__ is not None and self.__spec__.loader is not None
                try:
                    self.__spec__.loader.exec_module(self)
                except BaseException:
                    self.__class__ = _LazyPackage
                    raise
        return getattr(self, name)


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
def schemas_are_read() -> Iterator[None]:
    """Suppress the warning while kafka-python reads schemas, which happens when a message's class is created."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", r"(read|open)_text is deprecated", DeprecationWarning)
        yield


for _name in _LAZY_PACKAGES:
    _make_lazy(_name)
with schemas_are_read():
    for _name in ("admin", "consumer", "metadata", "producer", "sasl"):
        importlib.import_module(f"kafka.protocol.{_name}")
    importlib.import_module("kafka.coordinator.assignors.sticky.user_data")
