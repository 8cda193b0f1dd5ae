"""Failures that pass by themselves while Spark or a worker starts: the service retries, and never exits with code 2."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import attrs
import pytest
import trio

from tests.integration.connect_server import ConnectServer
from tests.integration.spark_service import Service, fill, kill, outside_tmp, spark_service, with_small_disks

pytestmark = [pytest.mark.integration, pytest.mark.cold]

SHARED = 'master = "local[2]"\nshare = true'


async def stop_in_order(service: Service) -> None:
    service.running.process.send_signal(signal.SIGTERM)
    with trio.fail_after(60):
        assert await service.running.process.wait() == 0, service.log


@pytest.mark.parametrize("after", [2.0, *(pytest.param(after, marks=pytest.mark.exhaustive) for after in (0.3, 4.0))])
@pytest.mark.parametrize(
    "spark", ['master = "local[2]"', pytest.param(SHARED, marks=pytest.mark.exhaustive)], ids=["own", "shared"]
)
async def test_fault_64_jvm_killed_while_it_starts_is_restarted(tmp_path: Path, after: float, spark: str) -> None:
    """The kernel kills processes like this when memory runs out."""
    async with spark_service(tmp_path, spark=spark, workers=2 if "share" in spark else 1) as service:
        await service.until(lambda: bool(service.jvms()))
        (jvm,) = service.jvms()
        await trio.sleep(after)
        kill(jvm)
        await service.produce_and_land(10)
        assert set(service.jvms()) - {jvm}
        await stop_in_order(service)


async def test_fault_64_killed_jvm_launcher_is_restarted(tmp_path: Path) -> None:
    """The launcher is a small JVM that runs before Spark's; a shell passes on its exit code as 137."""
    async with spark_service(tmp_path) as service:
        await service.until(lambda: bool(service.processes("java")))
        for pid in service.processes("java"):
            kill(pid)
        await service.produce_and_land(2)


async def test_fault_64_jvm_killed_under_stop_is_exit_code_1(tmp_path: Path) -> None:
    async with spark_service(tmp_path, on_failure="stop") as service:
        await service.until(lambda: bool(service.jvms()))
        kill(service.jvms()[0])
        with trio.fail_after(120):
            assert await service.running.process.wait() == 1, service.log


@pytest.mark.parametrize("fault", ["full", pytest.param("read-only", marks=pytest.mark.exhaustive)])
async def test_fault_64_full_tmp_is_waited_for(fault: str) -> None:
    """No directory for temporary files is usable: neither /tmp, nor those that Python uses instead."""
    with outside_tmp() as directory:
        (elsewhere := directory / "disk").mkdir()
        places, go = (Path("/tmp"), Path("/var/tmp"), elsewhere), directory / "go"
        options = ",ro" if fault == "read-only" else ""
        async with spark_service(
            directory, before=with_small_disks(*places, options=options, go=go, cwd=elsewhere)
        ) as service:
            disks = [await service.disk(place) for place in places]
            ballast = [fill(disk) for disk in disks] if fault == "full" else []
            go.touch()
            await service.until_not_ready("No usable temporary directory")
            assert "restarting in" in await service.not_ready() or "started again" in await service.not_ready()
            for file in ballast:
                file.unlink()
            if fault == "read-only":
                enter = ["nsenter", "--target", str(service.running.process.pid), "--mount"]
                await trio.run_process([*enter, "mount", "-o", "remount,rw", "/tmp"])
            await service.produce_and_land(2)


@pytest.mark.exhaustive
async def test_fault_64_unwritable_spark_directory_is_waited_for(tmp_path: Path) -> None:
    """The JVM runs, but Spark cannot create a directory at the app's `spark.local.dir`."""
    (place := tmp_path / "none").touch()
    async with spark_service(tmp_path, conf=f'"spark.local.dir" = "{place}/here"') as service:
        await service.until_not_ready("Spark does not start")
        assert service.exit_code is None
        place.unlink()
        await service.produce_and_land(2)


@pytest.mark.parametrize(
    "spark", ['master = "local[2]"', pytest.param(SHARED, marks=pytest.mark.exhaustive)], ids=["own", "shared"]
)
async def test_fault_64_full_table_disk_at_the_start_is_waited_for(tmp_path: Path, spark: str) -> None:
    (place := tmp_path / "disk").mkdir()
    go, workers = tmp_path / "go", 2 if "share" in spark else 1
    async with spark_service(
        tmp_path, before=with_small_disks(place, go=go), table=place / "landed", spark=spark, workers=workers
    ) as service:
        disk = await service.disk(place)
        ballast = fill(disk)
        go.touch()
        service.cluster.produce("orders", 0, b"a first one")
        await service.until(lambda: "No space left on device" in service.log)
        assert "choose a directory" not in service.log
        ballast.unlink()
        await attrs.evolve(service, table=disk / "landed").produce_and_land(2)


async def test_fault_64_worker_killed_with_a_full_disk_keeps_the_other(tmp_path: Path) -> None:
    (place := tmp_path / "disk").mkdir()
    async with spark_service(
        tmp_path, before=with_small_disks(place), table=place / "landed", spark=SHARED, workers=2
    ) as started:
        disk = await started.disk(place)
        service = attrs.evolve(started, table=disk / "landed")
        await service.produce_and_land(2)
        healthy, killed = sorted(service.workers())
        ballast = fill(disk)
        kill(killed)
        await service.until_not_ready("No space left on device")
        await trio.sleep(5)
        assert healthy in service.workers(), "the healthy worker continues"
        assert service.exit_code is None
        ballast.unlink()
        await service.produce_and_land(10)
        assert healthy in service.workers()
        await stop_in_order(service)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ConnectServer]:
    with ConnectServer(tmp_path / "server") as server:
        yield server


@pytest.mark.exhaustive
async def test_fault_64_connect_server_dying_in_a_probe_is_waited_for(tmp_path: Path, server: ConnectServer) -> None:
    async with spark_service(tmp_path, spark=f'master = "{server.url}"') as service:
        await service.until(lambda: any(service.table.rglob("probe-*")))
        server.kill()
        await trio.sleep(5)
        assert service.exit_code is None, service.log
        await trio.to_thread.run_sync(server.start)
        await service.produce_and_land(2)


@pytest.mark.exhaustive
async def test_fault_64_refusing_connect_server_is_waited_for(tmp_path: Path, server: ConnectServer) -> None:
    server.kill()
    async with spark_service(tmp_path, spark=f'master = "{server.url}"') as service:
        await service.until(lambda: "retrying" in service.log)
        await trio.to_thread.run_sync(server.start)
        await service.produce_and_land(2)
