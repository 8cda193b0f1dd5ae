"""Measurements chosen on the command line: combinations of size, codec and values, and the number of rounds."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from itertools import product

import attrs

from bench.common.filling import Contents
from bench.common.options import add_usual_options, positive, rounds_asked
from bench.consume.contenders import CONTENDERS, Contender

SIZES = (200, 1000)
CODECS = ("none", "lz4", "zstd")
VALUES = ("random", "compressible")
PARTITIONS = 4
REPEATS = 3

_MESSAGES = {200: 2_000_000, 1000: 800_000}
_QUICK_MESSAGES = 200_000


@attrs.frozen
class Combination:
    """A topic: size of a value in bytes, compression, kind of its values, number of messages."""

    size: int
    codec: str
    values: str
    messages: int

    def __str__(self) -> str:
        return f"{self.size} B, {self.codec}, {self.values}"

    @property
    def contents(self) -> Contents:
        return Contents(self.messages, self.size, PARTITIONS, self.codec, self.values, has_keys=True)


@attrs.frozen
class Plan:
    combinations: tuple[Combination, ...]
    contenders: tuple[Contender, ...]
    """Contenders of the first combination."""
    repeats: int
    everyone: bool
    """True if all contenders take part in every combination."""

    @classmethod
    def of(cls, options: argparse.Namespace) -> Plan:
        chosen = tuple(one for one in CONTENDERS if one.name in options.contenders)
        return cls(
            combinations=tuple(_combinations(options)),
            contenders=chosen,
            repeats=rounds_asked(options, REPEATS),
            everyone=options.all or len(chosen) < len(CONTENDERS),
        )


def add_options(parser: argparse.ArgumentParser) -> None:
    names = [contender.name for contender in CONTENDERS]
    add_usual_options(
        parser, quick="fewer messages, the first combination, one round", repeats=REPEATS, contenders=names
    )
    parser.add_argument("--all", action="store_true", help="all contenders at every combination")
    parser.add_argument("--messages", type=positive, metavar="N", help=f"in each topic (default, by size: {_MESSAGES})")
    parser.add_argument("--sizes", type=positive, nargs="+", default=SIZES, metavar="BYTES", help=f"default: {SIZES}")
    parser.add_argument("--codecs", nargs="+", default=CODECS, choices=CODECS, help="default: all")
    parser.add_argument(
        "--values", nargs="+", choices=VALUES, help="default: random ones without a codec, compressible ones with one"
    )


def _combinations(options: argparse.Namespace) -> Iterable[Combination]:
    every = [
        Combination(size, codec, values, options.messages or _messages(size, options.quick))
        for size, codec in product(options.sizes, options.codecs)
        for values in _values(codec, options.values)
    ]
    return every[:1] if options.quick else every


def _values(codec: str, chosen: Sequence[str] | None) -> Sequence[str]:
    """Return the kinds of values. Without compression one is enough, since their content makes no difference."""
    if chosen is None:
        return ["random" if codec == "none" else "compressible"]
    return chosen[:1] if codec == "none" else chosen


def _messages(size: int, quick: bool) -> int:
    """Return the number of messages: about as many bytes for each size, so that all sizes take about as long."""
    if quick:
        return _QUICK_MESSAGES
    return _MESSAGES.get(size) or max(200_000, _MESSAGES[200] * 200 // size)
