"""The faults of a chaos run. Each function returns what it hit, or "skipped: ..." with the reason."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import trio
from confluent_kafka import KafkaException

from tests.chaos.plan import Fault
from tests.integration.connect_server import ConnectServerError
from tests.integration.peers.running import ROOT
from tests.integration.real_kafka.node import KafkaStartError

if TYPE_CHECKING:
    from tests.chaos.scene import Scene
    from tests.chaos.services import Service
    from tests.integration.outcome import Outcome

MAX_PARTITIONS = 10

_NO_DISK = "skipped: no disk of its own"
_JVM_SECONDS = 60.0
_KILL_SECONDS = 4.0
"""The longest time between the start of a JVM, or of a compaction, and its kill."""
_KILLED_EARLY = 0.25
"""Faults with a draw below this number kill a compaction before it publishes."""
_PUBLISHING_SECONDS = 0.1
"""The longest time between the first visible change of a compaction and its kill."""
_COMMAND_SECONDS = 180.0
_SERVER_STARTS = 5

in_thread = partial(trio.to_thread.run_sync, abandon_on_cancel=True)
T = TypeVar("T")


def pick(fault: Fault, candidates: Sequence[T]) -> T:
    """Return the victim that the fault's draw picks."""
    return candidates[int(fault.draw * len(candidates))]


def send(pid: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, number)


# -- brokers ----------------------------------------------------------------------------------------


async def kill_broker(scene: Scene, fault: Fault) -> str:
    node = pick(fault, scene.kafka.nodes)
    await in_thread(node.kill)
    await trio.sleep(fault.seconds)
    node.start()
    return f"broker {node.node_id}"


async def stop_broker(scene: Scene, fault: Fault) -> str:
    node = pick(fault, scene.kafka.nodes)
    await in_thread(node.stop)
    await trio.sleep(fault.seconds)
    node.start()
    return f"broker {node.node_id}"


async def freeze_broker(scene: Scene, fault: Fault) -> str:
    node = pick(fault, scene.kafka.nodes)
    node.freeze()
    try:
        await trio.sleep(fault.seconds)
    finally:
        node.thaw()
    return f"broker {node.node_id}"


async def add_partition(scene: Scene, fault: Fault) -> str:
    wanted = scene.producer.partitions + 1
    if wanted > MAX_PARTITIONS:
        return "skipped: enough partitions"
    try:
        await in_thread(scene.kafka.add_partitions, scene.producer.topic, wanted)
    except (KafkaException, KafkaStartError) as error:
        return f"skipped: {str(error).splitlines()[0]}"
    scene.producer.partitions = wanted
    return f"{wanted} partitions"


# -- services ---------------------------------------------------------------------------------------


async def _kill(scene: Scene, fault: Fault, pids: Sequence[int]) -> str:
    if not pids:
        return "skipped: no such process"
    victim = pick(fault, sorted(pids))
    send(victim, signal.SIGKILL)
    return f"process {victim}"


async def _freeze(scene: Scene, fault: Fault, pids: Sequence[int]) -> str:
    if not pids:
        return "skipped: no such process"
    victim = pick(fault, sorted(pids))
    send(victim, signal.SIGSTOP)
    try:
        await trio.sleep(fault.seconds)
    finally:
        send(victim, signal.SIGCONT)
    return f"process {victim}"


async def kill_worker(scene: Scene, fault: Fault) -> str:
    return await _kill(scene, fault, scene.services[fault.component].workers())


async def freeze_worker(scene: Scene, fault: Fault) -> str:
    return await _freeze(scene, fault, scene.services[fault.component].workers())


async def kill_supervisor(scene: Scene, fault: Fault) -> str:
    pid = scene.services[fault.component].pid
    return await _kill(scene, fault, [pid] if pid else [])


async def freeze_supervisor(scene: Scene, fault: Fault) -> str:
    pid = scene.services[fault.component].pid
    return await _freeze(scene, fault, [pid] if pid else [])


async def kill_jvm(scene: Scene, fault: Fault) -> str:
    if fault.component == "iceberg":
        async with scene.server_changes:
            await in_thread(scene.server.kill)
            await trio.sleep(fault.draw * _KILL_SECONDS)
            await start_server(scene)
        return "Connect server"
    return await _kill(scene, fault, scene.services[fault.component].jvms())


async def freeze_jvm(scene: Scene, fault: Fault) -> str:
    service = scene.services[fault.component]
    return await _freeze(scene, fault, [scene.server.pid] if fault.component == "iceberg" else service.jvms())


async def kill_starting_jvm(scene: Scene, fault: Fault) -> str:
    """Kill a worker, then the JVM of its successor while this JVM starts."""
    service = scene.services[fault.component]
    before = set(service.jvms())
    await kill_worker(scene, fault)
    with trio.move_on_after(_JVM_SECONDS):
        while not (started := set(service.jvms()) - before):
            await trio.sleep(0.05)
        await trio.sleep(fault.draw * _KILL_SECONDS)
        send(started.pop(), signal.SIGKILL)
        return f"{fault.draw * _KILL_SECONDS:.1f} s after its start"
    return f"skipped: no JVM within {_JVM_SECONDS:g} s"


async def terminate(scene: Scene, fault: Fault) -> str:
    service = scene.services[fault.component]
    took = await _stop(scene, service)
    service.start()
    return f"ended after {took:.1f} s"


async def _stop(scene: Scene, service: Service) -> float:
    """Stop a service. Return the seconds that this took."""
    began = trio.current_time()
    if not await service.stop():
        scene.add_violation(f"{service.name} did not end within {trio.current_time() - began:.0f} s after SIGTERM")
    return trio.current_time() - began


async def full_disk(scene: Scene, fault: Fault) -> str:
    disk = scene.disks[fault.component]
    if not disk.is_own:
        return _NO_DISK
    await disk.stay_full(fault.seconds)
    return str(disk.path.name)


async def full_disk_at_start(scene: Scene, fault: Fault) -> str:
    """Fill a service's disk and kill one of its workers, so that the worker starts on a full disk."""
    disk = scene.disks[fault.component]
    if not disk.is_own:
        return _NO_DISK
    async with trio.open_nursery() as nursery:
        nursery.start_soon(disk.stay_full, fault.seconds)
        await trio.sleep(1.0)
        return await kill_worker(scene, fault)


async def read_only(scene: Scene, fault: Fault) -> str:
    disk = scene.disks[fault.component]
    if not disk.is_own:
        return _NO_DISK
    await disk.stay_read_only(fault.seconds)
    return str(disk.path.name)


# -- maintenance ------------------------------------------------------------------------------------


async def optimize(scene: Scene, fault: Fault) -> str:
    """Compact, vacuum and checkpoint the Delta table by delta-rs while its service is stopped, as the docs require."""
    from deltalake import DeltaTable
    from deltalake.exceptions import DeltaError

    service, path, began = scene.services["delta"], scene.tables["delta"], trio.current_time()
    await _stop(scene, service)
    try:
        if not await in_thread(DeltaTable.is_deltatable, str(path)):
            return "skipped: no table yet"
        table = await in_thread(DeltaTable, path)
        done = await in_thread(table.optimize.compact)
        await in_thread(table.vacuum)
        await in_thread(table.create_checkpoint)
        return f"{done['numFilesRemoved']} files to {done['numFilesAdded']}"
    except DeltaError as error:
        if not scene.disks["delta"].was_faulty_since(began):
            raise
        return _failure(error)
    finally:
        service.start()


async def start_server(scene: Scene) -> None:
    """Start the Connect server, in several attempts: it does not start while /tmp is full, for example."""
    for _ in range(_SERVER_STARTS - 1):
        with suppress(ConnectServerError):
            await in_thread(scene.server.start)
            return
    await in_thread(scene.server.start)


async def rewrite(scene: Scene, fault: Fault) -> str:
    """Compact the Iceberg table and expire its snapshots through the Connect server that its service uses."""
    try:
        with trio.fail_after(_COMMAND_SECONDS):
            return await in_thread(_rewrite, scene)
    except Exception as error:  # the server may be down or busy; the comparison of tables finds any damage
        return _failure(error)


def _failure(error: Exception) -> str:
    """Return the effect of maintenance that another program could not do."""
    return f"failed: {type(error).__name__}: {next(iter(str(error).splitlines()), '')[:100]}"


def _rewrite(scene: Scene) -> str:
    catalog, _, name = scene.iceberg.partition(".")
    with scene.server.session() as spark:
        [done] = spark.sql(f"CALL {catalog}.system.rewrite_data_files(table => '{name}')").collect()
        spark.sql(f"CALL {catalog}.system.expire_snapshots(table => '{name}')").collect()
    return f"{done[0]} files to {done[1]}"


async def compact(scene: Scene, fault: Fault) -> str:
    return _summary(await scene.command("compact", "--quiet"))


async def sweep(scene: Scene, fault: Fault) -> str:
    return _summary(await scene.command("sweep", "--older-than", "1min", "--force", "--execute", "--quiet"))


async def verify(scene: Scene, fault: Fault) -> str:
    return _summary(await scene.command("verify", "--quiet"))


def _summary(outcome: Outcome) -> str:
    lines = (outcome.err or outcome.out).strip().splitlines()
    return f"exit code {outcome.code}" + (f": {lines[-1][:150]}" if outcome.code and lines else "")


async def kill_compact(scene: Scene, fault: Fault) -> str:
    """Kill a compaction, mostly right after its first change that plain readers see, and run the next to repair it."""
    service = scene.services["parquet"]
    command = [sys.executable, "-m", "sarameya.service", "compact", service.app.table]
    replaced = scene.tables["parquet"] / "_sarameya" / "replaced"
    before = _entries(replaced)
    process = await trio.lowlevel.open_process(command, env=service.environment, stderr=subprocess.DEVNULL, cwd=ROOT)
    if fault.draw < _KILLED_EARLY:
        since, when = "its start", fault.draw / _KILLED_EARLY * _KILL_SECONDS
    else:
        since, when = "its first visible change", (fault.draw - _KILLED_EARLY) * _PUBLISHING_SECONDS
        while process.poll() is None and _entries(replaced) <= before:
            await trio.sleep(0.001)
    await trio.sleep(when)
    process.kill()
    code = await process.wait()
    return f"ended with {code} {when:.3f} s after {since}, the next: {await compact(scene, fault)}"


def _entries(directory: Path) -> set[str]:
    return set(os.listdir(directory)) if directory.is_dir() else set()


async def full_tmp(scene: Scene, fault: Fault) -> str:
    if not scene.tmp.is_own:
        return _NO_DISK
    await scene.tmp.stay_full(fault.seconds)
    return "/tmp"


FAULTS: Mapping[str, Callable[[Scene, Fault], Awaitable[str]]] = {
    function.__name__: function
    for function in (
        *(kill_broker, stop_broker, freeze_broker, add_partition),
        *(kill_worker, freeze_worker, kill_supervisor, freeze_supervisor, kill_jvm, kill_starting_jvm, freeze_jvm),
        *(terminate, full_disk, full_disk_at_start, read_only),
        *(optimize, rewrite, compact, sweep, verify, kill_compact, full_tmp),
    )
}
