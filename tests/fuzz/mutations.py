"""Mutations of valid bytes: flipped bits, truncation, wrong lengths, varints without an end."""

from __future__ import annotations

import struct
from collections.abc import Callable
from random import Random

_NUMBERS = (-(2**31), -2, -1, 0, 1, 2, 127, 128, 2**15 - 1, 2**16, 2**24, 2**31 - 1)


def mutated(rng: Random, data: bytes) -> bytes:
    """Return `data` after one to four random mutations."""
    changed = bytearray(data)
    for _ in range(rng.randrange(1, 5)):
        rng.choice(_MUTATIONS)(rng, changed)
    return bytes(changed)


def _at(rng: Random, data: bytearray) -> int:
    return rng.randrange(len(data) + 1)


def _flip(rng: Random, data: bytearray) -> None:
    if data:
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)


def _overwrite(rng: Random, data: bytearray) -> None:
    if data:
        data[rng.randrange(len(data))] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))


def _cut_off(rng: Random, data: bytearray) -> None:
    del data[_at(rng, data) :]


def _remove_range(rng: Random, data: bytearray) -> None:
    at = _at(rng, data)
    del data[at : at + rng.randrange(1, 9)]


def _repeat(rng: Random, data: bytearray) -> None:
    at = _at(rng, data)
    data[at:at] = data[at : at + rng.randrange(1, 65)] * rng.randrange(1, 4)


def _overwrite_int32(rng: Random, data: bytearray) -> None:
    at = _at(rng, data)
    data[at : at + 4] = struct.pack(">i", rng.choice(_NUMBERS))


def _overwrite_int16(rng: Random, data: bytearray) -> None:
    at = _at(rng, data)
    data[at : at + 2] = struct.pack(">h", rng.choice((-(2**15), -2, -1, 0, 1, 300, 2**15 - 1)))


def _overwrite_varint(rng: Random, data: bytearray) -> None:
    at = _at(rng, data)
    data[at : at + rng.randrange(2)] = b"\xff" * rng.choice((1, 2, 4, 4, 9, 20)) + rng.choice(
        (b"\x01", b"\x0f", b"\x7f")
    )


def _insert_noise(rng: Random, data: bytearray) -> None:
    at = _at(rng, data)
    data[at:at] = rng.randbytes(rng.randrange(1, 20))


_MUTATIONS: tuple[Callable[[Random, bytearray], None], ...] = (
    _flip,
    _flip,
    _overwrite,
    _overwrite,
    _cut_off,
    _remove_range,
    _repeat,
    _overwrite_int32,
    _overwrite_int16,
    _overwrite_varint,
    _insert_noise,
)
