"""The rounds: a topic is filled, then all contenders read it one after another, and again."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence

from bench.common.broker import running_kafka
from bench.common.machine import load
from bench.consume.contenders import YARDSTICK, Contender, build
from bench.consume.figures import Field, Result, fastest
from bench.consume.filling import fill
from bench.consume.options import Combination, Plan
from bench.consume.programs.reading import Task
from bench.consume.running import run_program
from tests.integration.real_kafka import RealKafka

_SLOWEST = 20_000
"""Messages a second: who is slower than that has failed."""
_START_SECONDS = 60


def measure(plan: Plan) -> Iterator[Field]:
    """Each combination's results, as they come. Raises GoError, FillingError."""
    build()
    contenders: Sequence[Contender] = plan.contenders
    with running_kafka() as kafka:
        for number, combination in enumerate(plan.combinations):
            field = _measure(kafka, f"consume-{number}", combination, contenders, plan.repeats)
            yield field
            if number == 0 and not plan.everyone:
                contenders = _some(field)


def _some(field: Field) -> list[Contender]:
    """Ours, the yardstick, and the fastest Python peer."""
    best = fastest(result for result in field.results if result.contender.is_python_peer)
    return [
        result.contender
        for result in field.results
        if result.contender.is_ours or result.contender.name == YARDSTICK or result is best
    ]


def _measure(
    kafka: RealKafka, topic: str, combination: Combination, contenders: Sequence[Contender], repeats: int
) -> Field:
    _say(f"{combination}: filling with {combination.messages} messages")
    filled = fill(kafka, topic, combination)
    results = [Result(contender) for contender in contenders]
    for number in range(repeats):
        for result in results:
            name = result.contender.name
            task = Task(
                bootstrap=kafka.bootstrap_servers[0],
                topic=topic,
                group=f"{topic}-{name}-{number}",
                way=result.contender.way,
                messages=combination.messages,
                ends=filled.ends,
            )
            run = run_program(result.contender.command(task), _START_SECONDS + combination.messages / _SLOWEST)
            result.add(run, combination)
            told = run if isinstance(run, str) else f"{run.messages / run.seconds:,.0f}/s" if run.seconds else "0 s"
            _say(f"{combination}: round {number + 1} of {repeats}: {name} {told}")
    return Field(combination, filled.log_bytes, results, load())


def _say(text: str) -> None:
    """Progress, for who waits."""
    print(text, file=sys.stderr, flush=True)
