"""What a process takes, by what this one takes itself."""

from __future__ import annotations

import os
import time

import pytest

from bench.common.processes import Usage, cores, peak_rss_bytes, rss_bytes, usage


def test_cpu_time_is_the_process_own() -> None:
    before = time.process_time()
    told = usage(os.getpid()).cpu_seconds
    after = time.process_time()

    assert before <= told <= after


def test_resident_memory_grows_by_what_is_written_to() -> None:
    before = rss_bytes()
    held = bytearray(os.urandom(1)) * 30_000_000

    assert 25_000_000 < rss_bytes() - before < 60_000_000
    assert usage(os.getpid()).rss_bytes <= peak_rss_bytes()
    assert held


def test_process_that_is_gone_raises() -> None:
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)

    with pytest.raises(OSError):
        usage(pid)


def test_cores_are_cpu_seconds_a_second() -> None:
    assert cores(Usage(10.0, 1.0, 0), Usage(14.0, 7.0, 0)) == 1.5
