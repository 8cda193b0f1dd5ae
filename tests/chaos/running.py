"""A chaos run: rounds of faults, each followed by a calm in which services catch up and tables are compared."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from itertools import count
from pathlib import Path

import trio

from tests.chaos.comparison import differences, gaps
from tests.chaos.faults import FAULTS, in_thread, send, start_server
from tests.chaos.plan import ROUND_SECONDS, SERVICES, Fault, concerned, rounds
from tests.chaos.readers import READERS, log_rows
from tests.chaos.residue import left_in_tmp, prove_swept, survivors
from tests.chaos.scene import Scene, scene
from tests.chaos.watch import Occurrence
from tests.integration.real_kafka.node import KafkaStartError
from tests.integration.real_kafka.replicas import mend

RECOVERY_SECONDS = 240.0
"""The longest time that services may take to catch up after all faults are repaired: restarts of brokers and of a JVM
for each member, and backoffs, on a busy machine."""
START_SECONDS = 240.0
LAST_RECORDS = 500


class _WrongTable(Exception):
    """A table does not hold each record once. The run ends then, so that later faults do not hide the cause."""


def run(seed: int, minutes: float, directory: Path) -> bool:
    """Execute one run. Return whether every check succeeded."""
    return trio.run(_run, seed, minutes, directory)


async def _run(seed: int, minutes: float, directory: Path) -> bool:
    # Blocks the event loop, in which no other task runs yet.
    with scene(seed, directory) as stage:
        for service in stage.services.values():
            app = service.app
            stage.log(f"{service.name}: {app.workers} workers, {app.strategy}, {app.extra_options}")
        async with trio.open_nursery() as nursery:
            for service in stage.services.values():
                nursery.start_soon(service.keep_running, stage.on_service_end)
                service.start()
            nursery.start_soon(stage.watch.run)
            async with trio.open_nursery() as producing:
                producing.start_soon(stage.producer.run)
                try:
                    if await _await_commits(stage, START_SECONDS, "the start"):
                        await _rounds(stage, minutes)
                except _WrongTable:
                    stage.log("a table is wrong: no more rounds")
                producing.cancel_scope.cancel()
            await _end(stage)
            nursery.cancel_scope.cancel()
        _report(stage)
        return not stage.violations


async def _rounds(stage: Scene, minutes: float) -> None:
    seconds = min(ROUND_SECONDS, minutes * 30)
    end = trio.current_time() + minutes * 60
    for number, faults in zip(count(), rounds(stage.seed, seconds), strict=False):
        stage.log(f"round {number}: {len(faults)} faults")
        async with trio.open_nursery() as nursery:
            began = trio.current_time()
            for fault in faults:
                nursery.start_soon(_cause, stage, number, fault, began)
        await _repair(stage)
        await _await_commits(stage, RECOVERY_SECONDS, f"round {number}")
        await _compare(stage)
        if trio.current_time() > end:
            return


async def _cause(stage: Scene, number: int, fault: Fault, began: float) -> None:
    """Cause a fault at its time, and record its effect."""
    await trio.sleep_until(began + fault.at)
    occurrence = Occurrence(fault, number, stage.watch.now(), concerned(fault))
    stage.watch.occurrences.append(occurrence)
    try:
        occurrence.effect = await FAULTS[fault.kind](stage, fault)
    except Exception as error:
        occurrence.effect = f"failed: {type(error).__name__}: {error}"
        stage.add_violation(f"{fault}: {occurrence.effect}")
    occurrence.acknowledged, occurrence.ended = dict(stage.producer.ends), stage.watch.now()
    stage.log(f"{fault}: {occurrence.effect}")


async def _repair(stage: Scene) -> None:
    """Continue frozen processes, start stopped services and the Connect server, and bring all brokers in sync."""
    for service in stage.services.values():
        for pid in service.processes():
            send(pid, signal.SIGCONT)
        service.start()
    if not stage.server.is_running:
        await start_server(stage)
    try:
        await in_thread(mend, stage.kafka)
    except KafkaStartError as error:
        stage.log(f"Kafka's replicas are not in sync: {str(error).splitlines()[0]}")


async def _await_commits(stage: Scene, seconds: float, what: str) -> bool:
    """Wait until all groups have committed the log ends that are acknowledged now. Return False after a timeout.

    Args:
        stage: the scene of the run.
        seconds: the timeout, which counts as a violation.
        what: the event before the wait, for the log.
    """
    began, ends = trio.current_time(), dict(stage.producer.ends)
    with trio.move_on_after(seconds):
        while not ends or stage.watch.missing_commits(ends):
            ends = ends or dict(stage.producer.ends)
            await trio.sleep(0.5)
        stage.log(f"caught up {trio.current_time() - began:.1f} s after {what}: {sum(ends.values())} records")
        return True
    missing = stage.watch.missing_commits(ends)
    stage.add_violation(f"not caught up {seconds:g} s after {what}: {missing} ({stage.watch.last_error})")
    return False


async def _compare(stage: Scene) -> None:
    """Compare every table with the log, by independent readers.

    Raises:
        _WrongTable: A table does not hold each record once.
    """
    acknowledged = dict(stage.producer.ends)
    committed = {component: dict(ends) for component, ends in stage.watch.committed.items()}
    tables = {component: await in_thread(_read, component, stage.tables[component]) for component in SERVICES}
    log = await in_thread(log_rows, stage.kafka, stage.producer.topic, stage.producer.partitions)
    wrong = 0
    for component, rows in tables.items():
        for difference in await in_thread(differences, log, rows, committed[component]):
            stage.add_violation(f"{component}: {difference}")
            wrong += 1
    for gap in gaps(log, acknowledged):
        stage.add_violation(gap)
    stage.log("compared: " + ", ".join(f"{component} {len(rows)} rows" for component, rows in tables.items()))
    if wrong:
        raise _WrongTable


def _read(component: str, table: Path) -> Sequence[object]:
    return list(READERS[component](table))


async def _end(stage: Scene) -> None:
    """Land the remaining records, restart all services, stop them, and check processes, files and tables."""
    await stage.producer.finish()
    await _repair(stage)
    await _await_commits(stage, RECOVERY_SECONDS, "the end")
    for service in stage.services.values():
        await service.stop()
        service.start()
    # Without new records the groups have caught up already, even if no service starts.
    await stage.producer.finish(LAST_RECORDS)
    await _await_commits(stage, RECOVERY_SECONDS, "the last start")
    for service in stage.services.values():
        if not await service.stop():
            stage.add_violation(f"{service.name} did not end")
    await trio.sleep(3)  # guards of JVMs end a moment later
    for failure in stage.producer.failures:
        stage.add_violation(f"the producer: {failure}")
    for name, code in stage.last_codes.items():
        if code:
            stage.add_violation(f"{name}: the last process ended with {code}")
    for text in (*survivors(stage), *left_in_tmp(stage)):
        stage.add_violation(text)
    try:
        await _compare(stage)
    except _WrongTable:
        stage.log("a table is wrong at the end")
    await prove_swept(stage)


def _report(stage: Scene) -> None:
    stage.log("faults, each with the time from its end until all concerned groups had caught up:")
    for occurrence in stage.watch.occurrences:
        stage.log(str(occurrence))
    times = [occurrence.recovery for occurrence in stage.watch.occurrences if occurrence.recovery is not None]
    stage.log(f"{len(stage.watch.occurrences)} faults, {sum(stage.producer.ends.values())} records")
    if times:
        stage.log(f"recovery: median {sorted(times)[len(times) // 2]:.1f} s, longest {max(times):.1f} s")
    for text in stage.violations:
        stage.log(f"VIOLATION {text}")
    stage.log(f"seed {stage.seed}: {'FAILED' if stage.violations else 'all checks passed'}; logs: {stage.directory}")
