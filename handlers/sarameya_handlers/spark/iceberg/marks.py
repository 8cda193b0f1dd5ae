"""What an Iceberg table's properties say of its chains, for when its history says nothing any more. Pure.

    sarameya.chain.<chain>.<n>        begun <term>    link n is about to be published: the first one of an owner's term
    sarameya.chain.<chain>.<n>.rest   <link>          link n was the last one when its owner gave the chain up in order

Properties are written without a swap: an owner that has looked may sleep, and write what others have long gone beyond.
So a mark has its number in its name and takes no other's place, the highest one of a chain counts, and whoever goes on
behind a link puts a mark with a higher number before it publishes: a late word of that link counts for nothing then.

Names of chains, and links, are in hexadecimal: Spark shows no property that it takes for a secret, or for an address,
and would take a topic called orders-hourly for one ("url").
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Self

import attrs

from sarameya_handlers.landing.errors import BrokenChainError
from sarameya_handlers.landing.links import ChainKey, Link
from sarameya_handlers.spark.iceberg.history import chain_name, named_chain

_NAME = re.compile(r"sarameya\.chain\.((?:[0-9a-f]{2})+)\.(\d+)(\.rest)?")


@attrs.frozen(slots=True, order=True)
class Mark:
    """In the order in which they count: of one number the word of who has given the chain up comes last."""

    key: ChainKey
    number: int
    is_rest: bool
    value: str

    @classmethod
    def begun(cls, key: ChainKey, number: int, term: str) -> Self:
        """`term` is an owner's own, for as long as it has the chain."""
        return cls(key, number, False, f"begun {term}")

    @classmethod
    def rest(cls, head: Link) -> Self:
        return cls(head.key, head.number, True, head.to_json().encode().hex())

    @property
    def name(self) -> str:
        chain = chain_name(self.key).encode().hex()
        return f"sarameya.chain.{chain}.{self.number}{'.rest' if self.is_rest else ''}"

    def head(self) -> Link | None:
        """The last link, where it tells. Raises BrokenChainError."""
        if not self.is_rest:
            return None
        try:
            return Link.from_json(bytes.fromhex(self.value).decode())
        except ValueError as error:
            raise BrokenChainError(f"{self.key}: the table's property of it is no link: {self.value}") from error


def marks_in(properties: Mapping[str, str]) -> dict[ChainKey, list[Mark]]:
    """Each marked chain's, the one that counts last."""
    found: defaultdict[ChainKey, list[Mark]] = defaultdict(list)
    for name, value in properties.items():
        if match := _NAME.fullmatch(name):
            key = named_chain(bytes.fromhex(match[1]).decode())
            found[key].append(Mark(key, int(match[2]), match[3] is not None, value))
    return {key: sorted(marks) for key, marks in found.items()}


def overtaken(marks: Mapping[ChainKey, Iterable[Mark]], by: Iterable[Mark]) -> list[Mark]:
    """Those that say nothing any more once these are put, of what was there when the chain's end was looked for: what
    is lower, and what is of a future that a restored table does not have. The next link may be somebody's already."""
    return [
        mark
        for newer in by
        for mark in marks.get(newer.key, ())
        if mark.name != newer.name and (mark.is_rest or mark.number != newer.number + newer.is_rest)
    ]
