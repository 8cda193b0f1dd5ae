"""Temporary files of Spark's JVMs: a restarted service removes those of killed processes."""

from __future__ import annotations

import os
import signal
from functools import partial
from pathlib import Path

import pytest
import trio

from tests.integration.spark_service import Service, kill, spark_service

pytestmark = [pytest.mark.integration, pytest.mark.cold]

STALE = 97


@pytest.fixture
def temporary(tmp_path: Path) -> Path:
    """Return a directory that the services of this test use in place of /tmp."""
    (place := tmp_path / "a place of its own").mkdir()
    return place


def create_stale_directory(temporary: Path, number: int) -> None:
    """Create a directory as a killed service leaves it."""
    place = temporary / f"sarameya-jvm-{number:016x}"
    for name in ("spark-1", "blockmgr-1/0c"):
        (place / name).mkdir(parents=True)
    (place / "blockmgr-1" / "0c" / "temp_shuffle_1").write_bytes(bytes(10_000))


def jvm_directories(temporary: Path) -> list[Path]:
    return [*temporary.glob("sarameya-jvm-*")]


def has_spark_files(temporary: Path) -> bool:
    return any(temporary.glob("sarameya-jvm-*/blockmgr-*"))


def kill_all(service: Service) -> None:
    """Kill the service, its JVM and the JVM's guard at the same time, as a control group is killed."""
    everything = service.processes()
    for pid in everything:
        os.kill(pid, signal.SIGSTOP)
    for pid in everything:
        kill(pid)


async def test_fault_66_new_service_removes_files_of_killed_ones(tmp_path: Path, temporary: Path) -> None:
    for number in range(STALE):
        create_stale_directory(temporary, number)
    other = temporary / "spark-of-somebody-else"
    other.mkdir()
    environment = {"TMPDIR": str(temporary)}
    for moment in ("started", "starting", "started"):
        async with spark_service(tmp_path, environment=environment) as service:
            if moment == "started":
                await service.until(partial(has_spark_files, temporary))
            await service.until(service.jvms)
            kill_all(service)
            await service.running.process.wait()
        assert jvm_directories(temporary)
    async with spark_service(tmp_path, environment=environment) as service:
        await service.produce_and_land(2)
        (first,) = jvm_directories(temporary)
        assert sorted(os.listdir(temporary)) == sorted([first.name, other.name])
        assert has_spark_files(temporary), "all files of Spark are in it"
        kill(service.jvms()[0])
        await service.produce_and_land(2)
        (second,) = jvm_directories(temporary)
        assert second != first
        service.running.process.send_signal(signal.SIGTERM)
        with trio.fail_after(60):
            assert await service.running.process.wait() == 0
    assert os.listdir(temporary) == [other.name]


async def test_killed_service_leaves_no_temporary_files(tmp_path: Path, temporary: Path) -> None:
    """The JVM ends when it notices that its service has ended; then its guard removes the directory."""
    async with spark_service(tmp_path, environment={"TMPDIR": str(temporary)}) as service:
        await service.produce_and_land(2)
        kill(service.running.process.pid)
        with trio.fail_after(60):
            while jvm_directories(temporary):
                await trio.sleep(0.1)
