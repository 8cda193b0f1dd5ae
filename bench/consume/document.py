"""The same for programs: a run as plain values. Times are seconds, sizes are bytes, rates are messages a second."""

from __future__ import annotations

from typing import Any

import attrs

from bench.common.spread import Spread
from bench.consume.figures import Field, Ratio, Result, Run
from bench.consume.options import PARTITIONS


def document(run: Run) -> dict[str, Any]:
    return {
        "bench": "consume",
        "machine": attrs.asdict(run.machine),
        "versions": run.versions,
        "partitions": PARTITIONS,
        "repeats": run.repeats,
        "combinations": [_field(field) for field in run.fields],
    }


def _field(field: Field) -> dict[str, Any]:
    return {
        **attrs.asdict(field.combination),
        "log_bytes": field.log_bytes,
        "load": field.load,
        "contenders": [_result(result) for result in field.results],
        "ratios": [_ratio(ratio) for ratio in field.ratios],
    }


def _result(result: Result) -> dict[str, Any]:
    told = {"name": result.contender.name, "is_ours": result.contender.is_ours, "failures": result.failures}
    if not result.counts:
        return {**told, "figures": None}
    figures = {
        "messages_per_second": Spread.of(result.rates),
        "seconds": result.spread(lambda run: run.seconds),
        "seconds_from_start": result.spread(lambda run: run.seconds_from_start),
        "cpu_seconds": result.spread(lambda run: run.cpu_seconds),
        "peak_rss_bytes": result.spread(lambda run: run.peak_rss_bytes),
    }
    return {**told, "figures": {name: attrs.asdict(spread) for name, spread in figures.items()}}


def _ratio(ratio: Ratio) -> dict[str, Any]:
    return {
        "ours": ratio.ours,
        "theirs": ratio.theirs,
        **attrs.asdict(ratio.spread),
        "goal": ratio.goal,
        "reached": ratio.reached,
    }
