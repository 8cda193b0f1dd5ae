"""Memory use for batches that try to fill it, and for large ordinary ones."""

from __future__ import annotations

import subprocess
import sys
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sarameya.model import TopicPartition
from sarameya.protocol.records.batch_codec import build, decode, decode_columns, split
from sarameya.protocol.records.compression import Codec

HERE = Path(__file__).parent
PARTITION = TopicPartition("orders", 3)
MEGABYTE = 2**20


@pytest.mark.parametrize("codec", [codec.name for codec in Codec if codec is not Codec.NONE])
def test_bomb_takes_at_most_a_few_times_the_limit(codec: str) -> None:
    done = subprocess.run(
        [sys.executable, HERE / "hostile_sizes.py", codec, str(16 * MEGABYTE)],
        cwd=HERE.parents[1],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout.split()[0]) < 64, done.stdout


def peak_of(act: Callable[[], Any]) -> tuple[Any, int]:
    """Return the result, and the peak of the bytes held."""
    tracemalloc.start()
    try:
        return act(), tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("codec", Codec)
def test_record_of_100_megabytes_is_copied_a_few_times_only(codec: Codec) -> None:
    size = 100 * MEGABYTE
    (raw,) = split(build([(0, b"k", bytes(size), ())], codec=codec), PARTITION, 0)
    (message,), peak = peak_of(lambda: decode(raw, PARTITION, limit=2 * size))
    assert message.value is not None
    assert len(message.value) == size
    assert peak < 2.6 * size


@pytest.mark.parametrize("into", [decode, decode_columns])
def test_ten_thousand_headers_are_kept_in_a_few_megabytes(into: Any) -> None:
    headers = tuple((f"h{n % 7}", b"%d" % n) for n in range(10_000))
    (raw,) = split(build([(0, None, None, headers)]), PARTITION, 0)
    (message,), peak = peak_of(lambda: list(into(raw, PARTITION)))
    assert message.headers == headers
    assert peak < 4 * MEGABYTE
