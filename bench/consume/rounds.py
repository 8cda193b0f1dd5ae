"""The rounds: a topic is filled, then all contenders read it one after another, and again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from bench.common.broker import running_kafka
from bench.common.filling import fill
from bench.common.machine import load
from bench.common.presenting import show_progress
from bench.common.results import Result, best
from bench.common.tables import Table
from bench.consume.contenders import CONTENDERS, REFERENCE, Contender, build
from bench.consume.figures import RATE, add, table
from bench.consume.options import Combination, Plan
from bench.consume.programs.reading import Task
from bench.consume.running import run_program
from tests.integration.real_kafka import RealKafka

_SLOWEST = 20_000
"""Messages a second. A slower contender has failed."""
_START_SECONDS = 60


def measure(plan: Plan) -> Iterator[Table]:
    """Yield the table of each combination. Raises GoError, FillingError."""
    build()
    contenders: Sequence[Contender] = plan.contenders
    with running_kafka() as kafka:
        for number, combination in enumerate(plan.combinations):
            topic = f"consume-{number}"
            show_progress(f"{combination}: filling with {combination.messages} messages")
            filled = fill(kafka, topic, combination.contents)
            results = _measure(kafka, combination, topic, filled.ends, contenders, plan.repeats)
            yield table(combination, filled.log_bytes, results, load())
            if number == 0 and not plan.everyone:
                contenders = some(results)


def some(results: Sequence[Result]) -> list[Contender]:
    """Return our contenders, the reference peer, and the fastest Python peer."""
    peers = {contender.name for contender in CONTENDERS if contender.is_python_peer}
    fastest = best((result for result in results if result.name in peers), RATE)
    names = {REFERENCE, *(result.name for result in results if result.is_ours or result is fastest)}
    return [contender for contender in CONTENDERS if contender.name in names]


def _measure(
    kafka: RealKafka,
    combination: Combination,
    topic: str,
    ends: tuple[int, ...],
    contenders: Sequence[Contender],
    repeats: int,
) -> list[Result]:
    results = [Result(contender.name, contender.is_ours) for contender in contenders]
    for number in range(repeats):
        for contender, result in zip(contenders, results, strict=True):
            task = Task(
                bootstrap=kafka.bootstrap_servers[0],
                topic=topic,
                group=f"{topic}-{contender.name}-{number}",
                way=contender.way,
                messages=combination.messages,
                ends=ends,
            )
            run = run_program(contender.command(task), _START_SECONDS + combination.messages / _SLOWEST)
            add(result, run, combination)
            outcome = run if isinstance(run, str) else f"{run.messages / run.seconds:,.0f}/s" if run.seconds else "0 s"
            show_progress(f"{combination}: round {number + 1} of {repeats}: {contender.name} {outcome}")
    return results
