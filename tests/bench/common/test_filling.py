"""Values that fill a topic."""

from __future__ import annotations

import zlib

import pytest

from bench.common.filling import Contents, pool, values


def compression_ratio(kind: str, size: int) -> float:
    raw = b"".join(values(kind, size, 300))
    return len(zlib.compress(raw)) / len(raw)


@pytest.mark.parametrize("kind", ["random", "compressible", "events"])
@pytest.mark.parametrize("size", [200, 1000])
def test_values_have_the_requested_size_and_differ(kind: str, size: int) -> None:
    all_values = list(values(kind, size, 100))

    assert {len(value) for value in all_values} == {size}
    assert len(set(all_values)) == 100


@pytest.mark.parametrize("size", [200, 1000])
def test_only_compressible_values_compress(size: int) -> None:
    assert compression_ratio("random", size) > 0.99
    assert 0.1 < compression_ratio("compressible", size) < 0.5


def test_values_are_the_same_in_each_run() -> None:
    assert list(values("random", 200, 10)) == list(values("random", 200, 10))


def test_pool_has_no_more_values_than_messages() -> None:
    contents = Contents(10, 200, 4, values="events")

    assert pool(contents) == list(values("events", 200, 10))
    assert len(pool(Contents(10**6, 200, 4))) < 10**6
