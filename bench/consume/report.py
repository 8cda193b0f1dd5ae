"""Prints each combination's table and ratios as they come, for people."""

from __future__ import annotations

from collections.abc import Iterable

from bench.common.machine import Machine
from bench.common.rows import row
from bench.common.spread import Spread
from bench.consume.figures import Field, Ratio, Result, Run
from bench.consume.filling import BATCH_BYTES
from bench.consume.options import PARTITIONS, Plan
from tests.integration.real_kafka import KAFKA_VERSION

_NAME = 44
_WIDTH = 22
_COLUMNS = ("1000 messages/s", "MB/s", "seconds", "from start", "CPU seconds", "peak RSS, MB")


def print_report(plan: Plan, fields: Iterable[Field]) -> Run:
    """All that was measured, once it is printed."""
    run = Run(Machine.here(), plan.repeats, [])
    print(
        f"consume: Apache Kafka {KAFKA_VERSION}, one broker on this machine, {PARTITIONS} partitions,"
        f" record batches of at most {BATCH_BYTES // 1024} KiB, {plan.repeats} round(s); medians (least, most)"
        f"\n{run.machine}",
        flush=True,
    )
    for field in fields:
        run.fields.append(field)
        print("\n" + "\n".join(_lines(field)), flush=True)
    print("\nversions")
    for name, version in run.versions.items():
        print(row(name, [version], name_width=_NAME, cell_width=0))
    return run


def _lines(field: Field) -> Iterable[str]:
    combination = field.combination
    in_log = field.log_bytes / combination.messages
    yield _row(f"{combination} x {combination.messages}", _COLUMNS)
    yield from map(_result, field.results, [combination.size] * len(field.results))
    yield f"{in_log:.0f} bytes a message in the log; load {field.load:.1f}"
    if field.ratios:
        yield _row("ours / theirs (above 1: ours is faster)", ["ratio", "goal"])
    yield from map(_ratio, field.ratios)


def _result(result: Result, size: int) -> str:
    name = result.contender.name
    if not result.counts:
        runs = len(result.outcomes) + len(result.failures)
        return (
            f"{name:{_NAME}}  FAILED in {len(result.failures)} of {runs}: {'; '.join(dict.fromkeys(result.failures))}"
        )
    rates = Spread.of(result.rates)
    return _row(
        name,
        [
            rates.text(lambda rate: f"{rate / 1000:.0f}"),
            f"{rates.median * size / 1e6:.0f}",
            result.spread(lambda run: run.seconds).text(_hundredths),
            result.spread(lambda run: run.seconds_from_start).text(_hundredths),
            result.spread(lambda run: run.cpu_seconds).text(_hundredths),
            result.spread(lambda run: run.peak_rss_bytes / 1e6).text(lambda size: f"{size:.0f}"),
        ],
    )


def _ratio(ratio: Ratio) -> str:
    goal = "" if ratio.goal is None else f"{ratio.goal:.2f} {'reached' if ratio.reached else 'missed'}"
    return _row(f"{ratio.ours} / {ratio.theirs}", [ratio.spread.text(_three_digits), goal])


def _hundredths(number: float) -> str:
    return f"{number:.2f}"


def _three_digits(number: float) -> str:
    """So that a goal just missed does not read as one reached."""
    return f"{number:#.3g}"


def _row(name: str, cells: Iterable[str]) -> str:
    return row(name, cells, name_width=_NAME, cell_width=_WIDTH)
