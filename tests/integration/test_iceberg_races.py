"""Two processes, each with its own Spark driver, race for the links of an Iceberg chain.

They start with the creation of the table. In the conformance suite two processes race through one Spark Connect server
and a Hadoop catalog.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from sarameya_handlers import SparkOptions
from sarameya_handlers.landing.links import check_chain
from sarameya_handlers.spark.engines.jvm import spark_jvm
from sarameya_handlers.spark.iceberg.table import IcebergTable
from tests.conformance.results import row
from tests.integration.iceberg_racer import ROWS
from tests.integration.lake_stage import KEY, rows, rows_of
from tests.integration.lakes import lake_properties
from tests.integration.lakes.catalogs import jdbc_catalog, rest_catalog
from tests.integration.object_stores.gateway import Gateway

pytestmark = [
    pytest.mark.integration,
    pytest.mark.cold,
    # pyspark leaves the sockets of `collect` to the garbage collector.
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]

ROOT = Path(__file__).parents[2]
RACES = [20, pytest.param(100, marks=pytest.mark.exhaustive)]
NAME = "ice.db.raced"


class Racer:
    """The process of a racer. Each message to it, and from it, is one line."""

    def __init__(self, process: subprocess.Popen[str], errors: Path) -> None:
        self._process = process
        self._errors = errors

    def send(self, text: str) -> None:
        assert self._process.stdin
        self._process.stdin.write(f"{text}\n")
        self._process.stdin.flush()

    def receive(self) -> str:
        assert self._process.stdout
        line = self._process.stdout.readline()
        assert line, self._errors.read_text()[-3000:]
        return line.strip()


@contextmanager
def racer(which: int, directory: Path, properties: Mapping[str, str]) -> Iterator[Racer]:
    errors = directory / f"racer-{which}.err"
    command = [sys.executable, "-m", "tests.integration.iceberg_racer", json.dumps(properties), NAME]
    with (
        errors.open("w") as written,
        subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=written, text=True
        ) as process,
    ):
        try:
            yield Racer(process, errors)
        finally:
            process.kill()


@pytest.fixture(
    params=[
        pytest.param("rest", marks=row("Iceberg, REST catalog", "S3 gateway", "classic")),
        pytest.param(
            "jdbc", marks=[row("Iceberg, catalog in PostgreSQL", "local disk", "classic"), pytest.mark.exhaustive]
        ),
    ]
)
def properties(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Mapping[str, str]]:
    """Yield Spark's properties, with a catalog for several drivers: a REST server with tables on S3, or a database."""
    with ExitStack() as stack:
        if request.param == "rest":
            gateway: Gateway = request.getfixturevalue("gateway")
            gateway.set_environment(monkeypatch)
            catalog = stack.enter_context(rest_catalog(tmp_path, gateway))
        else:
            catalog = stack.enter_context(jdbc_catalog(tmp_path))
        yield lake_properties(tmp_path, iceberg=catalog)


@pytest.mark.landing(what="races")
@pytest.mark.parametrize("races", RACES)
def test_one_of_two_racing_processes_appends_each_link(
    tmp_path: Path, properties: Mapping[str, str], races: int, record_property: Callable[[str, object], None]
) -> None:
    started = time.monotonic()
    with ExitStack() as stack:
        both = [stack.enter_context(racer(which, tmp_path, properties)) for which in (0, 1)]
        assert [one.receive() for one in both] == ["open", "open"]
        reports = [race(both, number) for number in range(1, races + 1)]
        for one in both:
            one.send("0")
    seconds = time.monotonic() - started
    running = spark_jvm.start(SparkOptions(master="local[1]", conf=properties))
    try:
        table = IcebergTable(NAME)
        links = table.links(running.session, KEY, 1)
        landed = rows(table.read(running.session))
    finally:
        running.stop()

    for one, other in reports:
        assert one["winner"] == other["winner"], "both processes find the same attempt"
        assert one["winner"] in (one["mine"], other["mine"]), "the attempt is one of the two"
        assert one["found"] == other["found"] == 1
    assert [link.attempt for link in links] == [one["winner"] for one, _ in reports]
    check_chain(links)
    assert [link.rows for link in links] == [ROWS] * races
    assert landed == rows_of(*links), "the rows of the winners, and no others"

    errors = [error for pair in reports for side in pair for error in side["errors"]]
    refused = sum("Duplicate request to cherry pick wap id" in error for error in errors)
    won = sum(one["winner"] == one["mine"] for one, _ in reports)
    print(f"{races} races in {seconds:.0f} s, won {won}:{races - won}; Iceberg itself refused {refused} losers")
    assert refused >= races // 10, "otherwise the check before publishing decided, and Iceberg's refusal was not tested"
    record_property("races", races)
    assert 2 < won < races - 2, "both processes must win some links"


def race(both: list[Racer], number: int) -> tuple[dict[str, Any], dict[str, Any]]:
    for one in both:
        one.send(str(number))
    assert [one.receive() for one in both] == ["staged", "staged"]
    for one in both:
        one.send("go")
    first, second = (json.loads(one.receive()) for one in both)
    return first, second
