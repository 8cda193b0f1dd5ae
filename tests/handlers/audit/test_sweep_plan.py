"""A sweep removes old leftovers, but no file that a late attempt could still append: it restates idle heads first."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import attrs
import pytest

from sarameya.service.cli import main
from sarameya_handlers import ParquetTable
from sarameya_handlers.audit.commands import arguments, sweep_command
from sarameya_handlers.audit.sweep_plan import SKEW, plan_sweep, restated, to_restate
from sarameya_handlers.landing.directory.manifests import Manifest, Manifests
from sarameya_handlers.landing.links import ChainKey, Kind, Link
from sarameya_handlers.spark.errors import LandingError
from sarameya_handlers.spark.tables.table import Leftover
from tests.handlers.audit.fake_table import FakeTable, links_of
from tests.handlers.audit.kit import land

DAY, HOUR = 86_400.0, 3_600.0
NOW = 1_800_000_000.0
KEY = ChainKey("warehouse", "orders", 0)
OTHER = ChainKey("warehouse", "orders", 1)


def leftover(name: str, age: float, now: float = NOW) -> Leftover:
    return Leftover(name=name, size_bytes=10, changed=now - age, what="a staged file")


def tried(link: Link, age: float, now: float = NOW) -> Link:
    return attrs.evolve(link, tried_at=int((now - age) * 1000))


def test_older_leftovers_are_due_and_come_first() -> None:
    plan = plan_sweep([leftover("a", HOUR), leftover("b", 2 * DAY), leftover("c", DAY), leftover("d", -5.0)], DAY, NOW)
    assert [(swept.leftover.name, swept.is_due) for swept in plan] == [
        ("b", True),
        ("c", True),
        ("a", False),
        ("d", False),
    ]


@pytest.mark.parametrize(
    ("age", "is_forced", "is_due"), [(2 * HOUR, False, False), (DAY, False, True), (2 * HOUR, True, True)]
)
def test_leftover_of_other_jobs_is_kept_longer(age: float, is_forced: bool, is_due: bool) -> None:
    foreign = attrs.evolve(leftover("a", age), others_may_take=DAY)
    [swept] = plan_sweep([foreign], HOUR, NOW, is_forced=is_forced)
    assert swept.is_due == is_due


@pytest.mark.parametrize(
    ("age", "is_restated"),
    [(3 * DAY, True), (2 * DAY, True), (2 * DAY - SKEW + 1, True), (2 * DAY - SKEW - 1, False), (HOUR, False)],
)
def test_chain_is_restated_unless_it_grew_since(age: float, is_restated: bool) -> None:
    plan = plan_sweep([leftover("a", HOUR), leftover("b", 2 * DAY), leftover("c", 3 * DAY)], DAY, NOW)
    [head] = links_of(KEY, 4)
    assert to_restate([tried(head, age)], plan) == ([tried(head, age)] if is_restated else [])
    assert to_restate([tried(head, age)], plan_sweep([leftover("a", HOUR)], DAY, NOW)) == []


def test_restating_link_is_empty_and_follows_the_head() -> None:
    head = links_of(KEY, 4, 9)[-1]
    link = restated(head, NOW)
    assert link.follows(head)
    assert (link.kind, link.from_offset, link.to_offset, link.rows) == (Kind.RESTATED, 9, 9, 0)
    assert restated(head, NOW).attempt != link.attempt


# -- the command ---------------------------------------------------------------------------------


@pytest.fixture
def table(monkeypatch: pytest.MonkeyPatch) -> FakeTable:
    now = time.time()
    chains = {
        KEY: [tried(link, 3 * DAY, now) for link in links_of(KEY, 4, 9)],
        OTHER: [tried(link, HOUR, now) for link in links_of(OTHER, 3)],
    }
    listed_leftovers = [leftover("old", 2 * DAY, now), leftover("young", 2 * HOUR, now)]
    table = FakeTable(chains=chains, listed_leftovers=listed_leftovers)
    monkeypatch.setattr(arguments, "table_named", lambda name, options: table)
    return table


def sweep(capsys: pytest.CaptureFixture[str], *argv: str) -> tuple[int, Any, str]:
    capsys.readouterr()
    code = main(["sweep", "fake", "--quiet", "--older-than", "1d", *argv])
    out, err = capsys.readouterr()
    return code, json.loads(out) if "--json" in argv else out, err


def test_sweep_without_execute_changes_nothing(table: FakeTable, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = sweep(capsys)
    assert (code, err) == (0, "")
    assert [line.split()[:5] for line in out.splitlines()[2:5]] == [
        ["AGE", "BYTES", "WHAT", "NAME"],
        ["to", "be", "removed", "2.0", "d"],
        ["kept:", "too", "young", "2.0", "h"],
    ]
    assert out.splitlines()[-3:] == [
        "1 chain will be given an empty link first, so that no removed file can still be appended.",
        "1 leftover of 10 bytes to be removed.",
        "Nothing is changed yet: add --execute to do it.",
    ]
    assert [leftover.name for leftover in table.listed_leftovers] == ["old", "young"]
    assert len(table.chains[KEY]) == 2


def test_sweep_restates_idle_chains_then_removes(table: FakeTable, capsys: pytest.CaptureFixture[str]) -> None:
    called: list[str] = []
    table.before_call = called.append
    code, document, _ = sweep(capsys, "--execute", "--json")
    assert code == 0
    assert [(one["name"], one["removed"]) for one in document["leftovers"]] == [("old", True), ("young", False)]
    assert document["restated"] == [{"sink": "warehouse", "topic": "orders", "partition": 0, "number": 3}]
    assert [leftover.name for leftover in table.listed_leftovers] == ["young"]
    assert [link.kind for link in table.chains[KEY]][2:] == [Kind.RESTATED]
    assert len(table.chains[OTHER]) == 1
    assert called.index("land") < called.index("remove old")


def test_sweep_with_nothing_due_restates_nothing(table: FakeTable, capsys: pytest.CaptureFixture[str]) -> None:
    table.listed_leftovers = table.listed_leftovers[1:]
    code, document, _ = sweep(capsys, "--execute", "--json")
    assert (code, document["restated"]) == (0, [])
    assert [leftover.name for leftover in table.listed_leftovers] == ["young"]
    table.listed_leftovers = []
    assert "There are no leftovers." in sweep(capsys, "--execute")[1]


def test_attempt_that_wins_meanwhile_is_not_removed(table: FakeTable, capsys: pytest.CaptureFixture[str]) -> None:
    """A zombie appends its link right before the chain is restated, so its data now belongs to the table."""

    def wake(method: str) -> None:
        if method == "land" and len(table.chains[KEY]) == 2:
            table.chains[KEY].append(links_of(KEY, 4, 9, 12)[2])
            del table.listed_leftovers[0]

    table.before_call = wake
    code, document, _ = sweep(capsys, "--execute", "--json")
    assert code == 0
    assert [one["removed"] for one in document["leftovers"]] == [False, False]
    assert [leftover.name for leftover in table.listed_leftovers] == ["young"]


def test_sweep_removes_nothing_if_a_chain_cannot_be_restated(
    table: FakeTable, capsys: pytest.CaptureFixture[str]
) -> None:
    table.may_land = False
    capsys.readouterr()
    assert main(["sweep", "fake", "--quiet", "--older-than", "1d", "--execute"]) == 1
    assert "no empty link could be appended after link 2 of warehouse/orders-0 [4, 9), so" in capsys.readouterr().err
    assert [leftover.name for leftover in table.listed_leftovers] == ["old", "young"]


def test_chains_are_restated_in_jobs_of_limited_size() -> None:
    keys = [ChainKey("warehouse", "orders", n) for n in range(5)]
    table = FakeTable(chains={key: links_of(key, 4) for key in keys})
    heads = [table.chains[key][-1] for key in keys]
    sweep_command.restate_heads(None, table, heads, NOW)  # type: ignore[arg-type]
    assert [len(table.chains[key]) for key in keys] == [2] * 5
    table.may_land = False
    with pytest.raises(LandingError, match="no empty link could be appended"):
        sweep_command.restate_heads(None, table, [table.chains[keys[0]][-1]], NOW)  # type: ignore[arg-type]


def test_failed_removal_is_reported_and_exits_with_1(table: FakeTable, capsys: pytest.CaptureFixture[str]) -> None:
    table.remove_error = PermissionError(13, "Permission denied")
    code, out, _ = sweep(capsys, "--execute")
    assert code == 1
    assert "not removed: PermissionError: [Errno 13] Permission denied" in out
    assert "0 leftovers of 0 bytes removed." in out


def test_young_age_limit_needs_force(table: FakeTable, capsys: pytest.CaptureFixture[str]) -> None:
    argv = ["sweep", "fake", "--quiet", "--older-than", "30min"]
    assert main(argv) == 2
    assert "--force allows it" in capsys.readouterr().err
    assert main([*argv, "--force", "--execute"]) == 0
    assert table.listed_leftovers == []


# -- a table that allows one driver --------------------------------------------------------------


def test_sweep_with_its_own_driver_needs_confirmation(
    table: FakeTable, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    table.lock = tmp_path / "driver.lock"
    assert sweep(capsys)[0] == 0, "a sweep without --execute needs no lease"
    capsys.readouterr()
    assert main(["sweep", "fake", "--quiet", "--older-than", "1d", "--execute"]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert "fake:orders loses commits if two Spark drivers commit at once, and this command has its own" in line
    assert "use that (--spark sc://HOST:PORT), else stop them meanwhile, and add --single-driver" in line
    assert ([leftover.name for leftover in table.listed_leftovers], len(table.chains[KEY])) == (["old", "young"], 2)
    assert sweep(capsys, "--execute", "--single-driver")[0] == 0
    assert ([leftover.name for leftover in table.listed_leftovers], len(table.chains[KEY])) == (["young"], 3)


def test_sweep_with_its_own_driver_is_refused_beside_another(
    table: FakeTable, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    table.lock = tmp_path / "driver.lock"
    with lease_of_another_process(table.lock):
        code, _, err = sweep(capsys, "--execute", "--single-driver")
        assert code == 1, "not 2: the command line is valid once the other driver has ended"
        assert "fake:orders: a member, or another command, has its own driver, and the table loses" in err
        assert "(--spark sc://HOST:PORT), else stop them meanwhile, and try again" in err
        assert ([leftover.name for leftover in table.listed_leftovers], len(table.chains[KEY])) == (["old", "young"], 2)
    assert sweep(capsys, "--execute", "--single-driver")[0] == 0


@contextmanager
def lease_of_another_process(lock: Path) -> Iterator[None]:
    program = (
        "import sys, pathlib\nfrom sarameya_handlers.spark.engines.lease import take_lease\n"
        "take_lease(pathlib.Path(sys.argv[1]), 'no'); print('taken', flush=True); sys.stdin.read()"
    )
    command = [sys.executable, "-c", program, str(lock)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        try:
            assert other.stdout
            assert other.stdout.readline() == "taken\n"
            yield
        finally:
            other.kill()


def test_sweep_passes_table_options_to_the_table(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    calls: list[tuple[str, dict[str, Any]]] = []

    def named(name: str, options: dict[str, Any]) -> FakeTable:
        calls.append((name, options))
        return FakeTable()

    monkeypatch.setattr(arguments, "table_named", named)
    for name in ("delta:/d", "iceberg:a.b.c"):
        assert main(["sweep", name, "--older-than", "1d", "--quiet", "--staging", "/s", "--single-driver"]) == 0
    assert main(["sweep", "delta:/d", "--older-than", "1d", "--quiet"]) == 0
    assert calls == [
        ("delta:/d", {"staging": "/s", "single_driver": True}),
        ("iceberg:a.b.c", {"staging": "/s"}),
        ("delta:/d", {}),
    ]
    monkeypatch.undo()
    assert main(["sweep", "/p", "--older-than", "1d", "--quiet", "--staging", "/s"]) == 2
    assert "staging = '/s': is for object stores: a directory has its own" in capsys.readouterr().err


# -- a Parquet table -----------------------------------------------------------------------------


def test_zombie_that_wakes_after_a_sweep_loses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    table = ParquetTable(tmp_path / "orders")
    table.open(None)  # type: ignore[arg-type]
    links = [tried(link, 3 * DAY, time.time()) for link in links_of(KEY, 4, 9)]
    land(table, links[0])
    put, swept = Manifests.put, []

    def sleep_and_put(manifests: Manifests, manifest: Manifest) -> bool:
        """Simulate a sleep of two days right before the put, during which the sweep runs."""
        if manifest.link.attempt == links[1].attempt:
            for path in (table.path / "_sarameya" / "landing").rglob("*"):
                os.utime(path, (time.time() - 2 * DAY,) * 2)
            swept.append(main(["sweep", str(table.path), "--quiet", "--older-than", "1d", "--execute"]))
        return put(manifests, manifest)

    monkeypatch.setattr(Manifests, "put", sleep_and_put)
    land(table, links[1])
    out = capsys.readouterr().out
    assert swept == [0]
    assert "1 chain was given an empty link first" in out
    assert "1 leftover of" in out
    found = table.links(None, KEY, 1)  # type: ignore[arg-type]
    assert [(link.number, link.kind, link.to_offset) for link in found] == [(1, "records", 4), (2, "restated", 4)]
    assert main(["verify", str(table.path), "--quiet"]) == 0
