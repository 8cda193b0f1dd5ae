"""Stamps in message values: a sequence number and the time."""

from __future__ import annotations

import time

import pytest

from bench.members.stamps import lateness_and_sequence, stamped


@pytest.mark.parametrize("size", [16, 200])
def test_stamp_has_its_sequence_and_its_age(size: int) -> None:
    before = time.monotonic_ns()
    value = stamped(7, size)
    late, sequence = lateness_and_sequence(value)

    assert (len(value), sequence) == (size, 7)
    assert 0 <= late <= time.monotonic_ns() - before
