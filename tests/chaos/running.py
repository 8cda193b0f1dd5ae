"""A chaos run: rounds of faults, each followed by a calm in which services catch up and tables are compared."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from itertools import count
from pathlib import Path

import trio

from tests.chaos.comparing import differences, gaps
from tests.chaos.faults import FAULTS, in_thread, send, start_server
from tests.chaos.plan import ROUND_SECONDS, SERVICES, Fault, concerned, rounds
from tests.chaos.readers import READERS, log_rows
from tests.chaos.residue import left_in_tmp, prove_swept, survivors
from tests.chaos.scene import Scene, scene
from tests.chaos.watching import Happening
from tests.integration.real_kafka.node import KafkaStartError
from tests.integration.real_kafka.replicas import mend

RECOVERY_SECONDS = 240.0
"""The longest that services may take to catch up once all faults are healed: restarts of brokers, of a JVM for each
member, backoffs, on a machine that does other things, too."""
START_SECONDS = 240.0
LAST_RECORDS = 500


class _Rows(Exception):
    """A table does not hold each record once: the run ends, while what it has left is fresh."""


def run(seed: int, minutes: float, directory: Path) -> bool:
    """Live one run. Return whether all held."""
    return trio.run(_run, seed, minutes, directory)


async def _run(seed: int, minutes: float, directory: Path) -> bool:
    # Blocks, before anything else runs.
    with scene(seed, directory) as stage:
        for service in stage.services.values():
            stage.say(f"{service.name}: {service.app.workers} workers, {service.app.strategy}, {service.app.more}")
        async with trio.open_nursery() as nursery:
            for service in stage.services.values():
                nursery.start_soon(service.keep, stage.ended)
                service.start()
            nursery.start_soon(stage.watch.run)
            async with trio.open_nursery() as producing:
                producing.start_soon(stage.producing.run)
                try:
                    if await _caught_up(stage, START_SECONDS, "the start"):
                        await _rounds(stage, minutes)
                except _Rows:
                    stage.say("a table is wrong: no more rounds")
                producing.cancel_scope.cancel()
            await _end(stage)
            nursery.cancel_scope.cancel()
        _report(stage)
        return not stage.violations


async def _rounds(stage: Scene, minutes: float) -> None:
    seconds = min(ROUND_SECONDS, minutes * 30)
    end = trio.current_time() + minutes * 60
    for number, faults in zip(count(), rounds(stage.seed, seconds), strict=False):
        stage.say(f"round {number}: {len(faults)} faults")
        async with trio.open_nursery() as nursery:
            began = trio.current_time()
            for fault in faults:
                nursery.start_soon(_happen, stage, number, fault, began)
        await _heal(stage)
        await _caught_up(stage, RECOVERY_SECONDS, f"round {number}")
        await _compare(stage)
        if trio.current_time() > end:
            return


async def _happen(stage: Scene, number: int, fault: Fault, began: float) -> None:
    await trio.sleep_until(began + fault.at)
    happening = Happening(fault, number, stage.watch.now(), concerned(fault))
    stage.watch.happenings.append(happening)
    try:
        happening.did = await FAULTS[fault.kind](stage, fault)
    except Exception as error:
        happening.did = f"failed: {type(error).__name__}: {error}"
        stage.violation(f"{fault}: {happening.did}")
    happening.ends, happening.healed = dict(stage.producing.ends), stage.watch.now()
    stage.say(f"{fault}: {happening.did}")


async def _heal(stage: Scene) -> None:
    """Bring all brokers in sync, start the server, and wake all processes."""
    for service in stage.services.values():
        for pid in service.processes():
            send(pid, signal.SIGCONT)
        service.start()
    if not stage.server.is_running:
        await start_server(stage)
    try:
        await in_thread(mend, stage.kafka)
    except KafkaStartError as error:
        stage.say(f"Kafka is not in step: {str(error).splitlines()[0]}")


async def _caught_up(stage: Scene, seconds: float, what: str) -> bool:
    """Wait until all groups have committed what the brokers have acknowledged by now; return whether they have."""
    began, ends = trio.current_time(), dict(stage.producing.ends)
    with trio.move_on_after(seconds):
        while not ends or stage.watch.behind(ends):
            ends = ends or dict(stage.producing.ends)
            await trio.sleep(0.5)
        stage.say(f"caught up {trio.current_time() - began:.1f} s after {what}: {sum(ends.values())} records")
        return True
    stage.violation(f"not caught up {seconds:g} s after {what}: {stage.watch.behind(ends)} ({stage.watch.trouble})")
    return False


async def _compare(stage: Scene) -> None:
    """Hold every table to the log, by readers that are not ours. Raises _Rows where one is wrong."""
    acknowledged = dict(stage.producing.ends)
    committed = {component: dict(ends) for component, ends in stage.watch.committed.items()}
    tables = {component: await in_thread(_read, component, stage.tables[component]) for component in SERVICES}
    log = await in_thread(log_rows, stage.kafka, stage.producing.topic, stage.producing.partitions)
    wrong = 0
    for component, rows in tables.items():
        for difference in await in_thread(differences, log, rows, committed[component]):
            stage.violation(f"{component}: {difference}")
            wrong += 1
    for gap in gaps(log, acknowledged):
        stage.violation(gap)
    stage.say("compared: " + ", ".join(f"{component} {len(rows)} rows" for component, rows in tables.items()))
    if wrong:
        raise _Rows


def _read(component: str, table: Path) -> Sequence[object]:
    return list(READERS[component](table))


async def _end(stage: Scene) -> None:
    """Land what is left, end, start once more, end: nothing is left behind then, and every table is whole."""
    await stage.producing.finish()
    await _heal(stage)
    await _caught_up(stage, RECOVERY_SECONDS, "the end")
    for service in stage.services.values():
        await service.stop()
        service.start()
    await stage.producing.finish(LAST_RECORDS)  # else nobody has to have started for it
    await _caught_up(stage, RECOVERY_SECONDS, "the last start")
    for service in stage.services.values():
        if not await service.stop():
            stage.violation(f"{service.name} did not end")
    await trio.sleep(3)  # guards of JVMs end a moment later
    for failure in stage.producing.failures:
        stage.violation(f"the producer: {failure}")
    for name, code in stage.last_codes.items():
        if code:
            stage.violation(f"{name} ended with {code} at last")
    for text in (*survivors(stage), *left_in_tmp(stage)):
        stage.violation(text)
    try:
        await _compare(stage)
    except _Rows:
        stage.say("a table is wrong at the end")
    await prove_swept(stage)


def _report(stage: Scene) -> None:
    stage.say("faults, with the time until every group concerned had committed what there was when each was over:")
    for happening in stage.watch.happenings:
        stage.say(str(happening))
    times = [happening.recovery for happening in stage.watch.happenings if happening.recovery is not None]
    stage.say(f"{len(stage.watch.happenings)} faults, {sum(stage.producing.ends.values())} records")
    if times:
        stage.say(f"recovery: median {sorted(times)[len(times) // 2]:.1f} s, longest {max(times):.1f} s")
    for text in stage.violations:
        stage.say(f"VIOLATION {text}")
    stage.say(f"seed {stage.seed}: {'FAILED' if stage.violations else 'all held'}; logs: {stage.directory}")
