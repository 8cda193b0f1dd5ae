"""Two processes race for the links of a chain. Exactly one attempt appends each link, and both processes find it."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.contenders import Contender, Place
from tests.conformance.invariants import offsets, prove_audit, prove_chain, prove_rows, prove_winners
from tests.conformance.owners import KEY

pytestmark = pytest.mark.landing(what="races")

ROOT = Path(__file__).parents[2]
SECONDS = 600.0


def race(contender: Contender, place: Place, races: int) -> list[list[dict[str, Any]]]:
    """Run the races. Return the results of both racers, link by link."""
    barrier = place.directory / "barrier"
    barrier.write_bytes(bytes(2))
    racers = [_start(contender, place, which, barrier, races) for which in (0, 1)]
    end = time.monotonic() + SECONDS
    try:
        for racer in racers:
            racer.wait(max(end - time.monotonic(), 0))
    finally:
        for racer in racers:
            racer.kill()
            racer.wait()
    for which, racer in enumerate(racers):
        assert racer.returncode == 0, (place.directory / f"racer-{which}.err").read_text()[-2000:]
    return [
        [json.loads(line) for line in (place.directory / f"racer-{which}.out").read_text().splitlines()]
        for which in (0, 1)
    ]


def _start(contender: Contender, place: Place, which: int, barrier: Path, races: int) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "tests.conformance.racer", contender.name, str(which), str(races)]
    with (
        (place.directory / f"racer-{which}.out").open("wb") as out,
        (place.directory / f"racer-{which}.err").open("wb") as err,
    ):
        return subprocess.Popen([*command, str(barrier), *place.to_arguments()], cwd=ROOT, stdout=out, stderr=err)


@pytest.mark.integration
@pytest.mark.parametrize("part", [5, pytest.param(1, marks=pytest.mark.exhaustive)], ids=["some", "all"])
def test_exactly_one_of_two_processes_appends_each_link(
    contender: Contender, place: Place, part: int, record_property: Callable[[str, object], None]
) -> None:
    began, races = time.monotonic(), contender.races // part
    ones, others = race(contender, place, races)
    seconds = time.monotonic() - began

    assert [found["number"] for found in ones] == list(range(1, races + 1))
    for one, other in zip(ones, others, strict=True):
        assert (one["number"], one["winner"]) == (other["number"], other["winner"]), "both find the same attempt"
        assert sorted((one["outcome"], other["outcome"])) == ["LANDED", "LOST"], "exactly one of them has won"
    table = contender.table(place)
    with contender.reading(place) as spark:
        links = prove_chain(table, spark, KEY, end=table.heads(spark, [KEY])[KEY].to_offset)
        rows = prove_rows(table, spark, offsets({KEY: links[-1].to_offset}))
        prove_audit(table, spark)
    assert [link.attempt for link in links] == [one["winner"] for one in ones]
    prove_winners(links, rows)

    silent = sum(found["outcome"] == "LOST" and not found["error"] for found in ones + others)
    absent = sum(found["absent"] for found in ones + others)
    shares = [sum(found["outcome"] == "LANDED" for found in side) for side in (ones, others)]
    print(
        f"{contender.name}: {races} races in {seconds:.0f} s, won {shares[0]}:{shares[1]}; "
        f"{silent} losers got no error, {absent} attempts left no link"
    )
    record_property("races", races)
    assert min(shares) > 0.02 * races, "each must win some races"
