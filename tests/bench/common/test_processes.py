"""Resources of processes, measured on the test's own process and its children."""

from __future__ import annotations

import mmap
import os
import subprocess
import sys
import time

import pytest

from bench.common.processes import Usage, cores, peak_rss_bytes, rss_bytes, rss_bytes_of, tree, usage


def test_cpu_time_is_that_of_the_process() -> None:
    before = time.process_time()
    measured = usage(os.getpid()).cpu_seconds
    after = time.process_time()

    assert before <= measured <= after


def test_resident_memory_grows_by_written_bytes() -> None:
    with mmap.mmap(-1, 30_000_000) as fresh:  # memory that this process has not used and freed before
        before = rss_bytes()
        fresh.write(bytes(30_000_000))

        assert 25_000_000 < rss_bytes() - before < 70_000_000
        assert usage(os.getpid()).rss_bytes <= peak_rss_bytes()


def test_ended_process_raises() -> None:
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)

    with pytest.raises(OSError):
        usage(pid)


def test_cores_are_cpu_seconds_per_second() -> None:
    assert cores(Usage(10.0, 1.0, 0), Usage(14.0, 7.0, 0)) == 1.5


def test_tree_has_a_process_and_its_descendants() -> None:
    child = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'print(0, flush=True); input()'])"
    with subprocess.Popen([sys.executable, "-c", child], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        found = tree(process.pid)

        assert process.pid in found
        assert len(found) == 2
        assert found < tree(os.getpid())
        assert rss_bytes_of(found) > rss_bytes(process.pid)


def test_memory_of_ended_processes_is_zero() -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        process.wait()

    assert tree(process.pid) == {process.pid}
    assert rss_bytes_of({process.pid}) == 0
