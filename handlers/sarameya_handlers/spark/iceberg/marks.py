"""Marks of chains in an Iceberg table's properties, needed after its snapshots have expired. Pure.

    sarameya.chain.<chain>.<n>        begun <term>    an owner is about to publish link n, the first of its term
    sarameya.chain.<chain>.<n>.rest   <link>          link n was the last one when its owner stopped landing in order

A term is the time in which one owner appends to a chain. Properties are written without a compare-and-swap: an owner
may read them, sleep, and write values that are long out of date. So a mark has its number in its name and replaces no
other, and the highest mark of a chain counts. An owner that continues after a link sets a mark with a higher number
before it publishes, so a late mark for the earlier link has no effect.

Names of chains, and links, are in hexadecimal: Spark hides properties whose names look like a secret or an address,
and would hide a topic called orders-hourly ("url").
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Self

import attrs

from sarameya_handlers.landing.errors import BrokenChainError
from sarameya_handlers.landing.links import ChainKey, Link
from sarameya_handlers.spark.iceberg.history import chain_name, parse_chain_name

_NAME = re.compile(r"sarameya\.chain\.((?:[0-9a-f]{2})+)\.(\d+)(\.rest)?")


@attrs.frozen(slots=True, order=True)
class ChainMark:
    """A mark of a chain. Marks are ordered by number; of one number, the mark `rest` is the higher one."""

    key: ChainKey
    number: int
    is_rest: bool
    value: str

    @classmethod
    def begun(cls, key: ChainKey, number: int, term: str) -> Self:
        """Return the mark of an owner's first link. `term` is unique to this owner and this time."""
        return cls(key, number, False, f"begun {term}")

    @classmethod
    def rest(cls, head: Link) -> Self:
        """Return the mark of an owner's last link."""
        return cls(head.key, head.number, True, head.to_json().encode().hex())

    @property
    def name(self) -> str:
        chain = chain_name(self.key).encode().hex()
        return f"sarameya.chain.{chain}.{self.number}{'.rest' if self.is_rest else ''}"

    def head(self) -> Link | None:
        """Return the chain's last link; None if the mark is not a `rest` mark. Raises BrokenChainError."""
        if not self.is_rest:
            return None
        try:
            return Link.from_json(bytes.fromhex(self.value).decode())
        except ValueError as error:
            raise BrokenChainError(f"{self.key}: the table's property for it is not a link: {self.value}") from error


def chain_marks(properties: Mapping[str, str]) -> dict[ChainKey, list[ChainMark]]:
    """Return the marks of each chain in order: the last one counts."""
    found: defaultdict[ChainKey, list[ChainMark]] = defaultdict(list)
    for name, value in properties.items():
        if match := _NAME.fullmatch(name):
            key = parse_chain_name(bytes.fromhex(match[1]).decode())
            found[key].append(ChainMark(key, int(match[2]), match[3] is not None, value))
    return {key: sorted(marks) for key, marks in found.items()}


def superseded(marks: Mapping[ChainKey, Iterable[ChainMark]], by: Iterable[ChainMark]) -> list[ChainMark]:
    """Return the marks that become obsolete once the marks `by` are set.

    Lower marks become obsolete, and higher ones, which are older than the table's last restore. The mark of the next
    link stays: it may already be another owner's.
    """
    return [
        mark
        for newer in by
        for mark in marks.get(newer.key, ())
        if mark.name != newer.name and (mark.is_rest or mark.number != newer.number + newer.is_rest)
    ]
