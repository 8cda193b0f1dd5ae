"""kafka-python's messages, imported before all else: Python 3.11 warns of the way in which it reads their schemas, and
whoever turns warnings into errors could not import us."""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def schemas_are_read() -> Iterator[None]:
    """Have kafka-python read schemas, as it does where a message's class is made."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", r"(read|open)_text is deprecated", DeprecationWarning)
        yield


with schemas_are_read():
    for _name in ("admin", "consumer", "metadata", "producer", "sasl"):
        importlib.import_module(f"kafka.protocol.{_name}")
    importlib.import_module("kafka.coordinator.assignors.sticky.user_data")
