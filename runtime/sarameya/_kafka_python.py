"""kafka-python's messages, imported before anything else.

Python 3.11 warns about the way in which kafka-python reads its schemas; users who turn warnings into errors could not
import this package.
"""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def schemas_are_read() -> Iterator[None]:
    """Suppress the warning while kafka-python reads schemas, which happens when a message's class is created."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", r"(read|open)_text is deprecated", DeprecationWarning)
        yield


with schemas_are_read():
    for _name in ("admin", "consumer", "metadata", "producer", "sasl"):
        importlib.import_module(f"kafka.protocol.{_name}")
    importlib.import_module("kafka.coordinator.assignors.sticky.user_data")
