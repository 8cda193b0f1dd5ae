"""Names that dashboards, alerts and programs depend on: metrics, events, keys of status pages and of JSON output."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterable, Mapping
from contextlib import redirect_stderr, redirect_stdout
from functools import partial
from io import StringIO
from pathlib import Path
from typing import Any

import attrs
import trio
from prometheus_client.parser import text_string_to_metric_families

from sarameya import observe
from sarameya.embedded import EmbeddedCluster
from sarameya.service.cli import main
from tests.integration.real_kafka.node import free_ports

ROOT = Path(__file__).parents[2]
LANDED = 4
_FIXED_LABELS = ("event", "state", "reason", "what", "request", "result", "le")
"""Labels whose values are fixed by the code: users may depend on them."""
_DEADLINE = 60.0


def paths(value: Any, prefix: str = "") -> dict[str, str]:
    """Return the path of each value in a document, and the value's type. All items of a list share one path."""
    match value:
        case dict():
            found = [paths(inner, f"{prefix}.{key}" if prefix else str(key)) for key, inner in value.items()]
        case list():
            found = [paths(inner, f"{prefix}[]") for inner in value]
        case _:
            return {prefix: type(value).__name__.replace("int", "number").replace("float", "number")}
    return {key: kind for inner in found for key, kind in inner.items()}


def missing(recorded: Mapping[str, str], found: Mapping[str, str]) -> list[str]:
    """Return the recorded keys that are missing or have another type. Null matches any type."""
    return [
        key
        for key, kind in recorded.items()
        if key not in found or (kind != found[key] and "NoneType" not in (kind, found[key]))
    ]


def event_names() -> dict[str, list[str]]:
    """Return the names of all events, with the names of their fields."""
    kinds = [found for found in vars(observe).values() if isinstance(found, type) and issubclass(found, observe.Event)]
    return {kind.__name__: [field.name for field in attrs.fields(kind)] for kind in kinds if kind is not observe.Event}


@attrs.frozen(kw_only=True)
class Watched:
    """The output of a running service: its pages, metrics and log."""

    status: dict[str, str]
    """Paths and types of the values in `/status.json`."""
    answers: dict[str, str]
    """Texts of `/readyz` and `/healthz`."""
    metrics: dict[str, Any]
    log: dict[str, list[str]]
    """Name of each event that was logged as JSON -> the keys of its line."""


async def watch(directory: Path) -> Watched:
    """Run a service by `sarameya run` until it has committed all messages, read its pages, and stop it by SIGTERM."""
    (port,) = free_ports(1)
    async with EmbeddedCluster(topics={"orders": 1}) as cluster:
        for number in range(LANDED):
            cluster.produce("orders", 0, b"%d" % number)
        app = directory / "app.toml"
        handler = "tests.compatibility.handler:ReportingHandler"
        lines = [f"bootstrap_servers = {cluster.bootstrap_servers}", 'group = "g"', 'topics = ["orders"]']
        lines += ["[config]", 'offset_initial = "oldest"', "autocommit_interval = 0.1", "[handler]"]
        app.write_text("\n".join([*lines, f'name = "{handler}"']), encoding="utf-8")
        command = [sys.executable, "-m", "sarameya.service", "run", str(app)]
        command += ["--http", f"127.0.0.1:{port}", "--log-format", "json", "--log-level", "debug"]
        run = partial(trio.run_process, command, cwd=ROOT, capture_stdout=True, capture_stderr=True, check=False)
        with trio.fail_after(_DEADLINE):
            async with trio.open_nursery() as nursery:
                done: list[subprocess.CompletedProcess[bytes]] = []

                async def work(*, task_status: trio.TaskStatus[trio.Process]) -> None:
                    done.append(await run(task_status=task_status))

                process: trio.Process = await nursery.start(work)
                while not all(commit.offset == LANDED for commit in (cluster.committed("g") or {None: _NONE}).values()):
                    await trio.sleep(0.05)
                    assert process.returncode is None, done
                pages = {name: await _page(port, name) for name in ("readyz", "healthz", "status.json", "metrics")}
                os.kill(process.pid, signal.SIGTERM)
    assert done[0].returncode == 0, done[0].stderr
    return Watched(
        status=paths(json.loads(pages["status.json"])),
        answers={name: pages[name].strip() for name in ("readyz", "healthz")},
        metrics=metrics(pages["metrics"]),
        log=_logged(done[0].stderr.decode().splitlines()),
    )


@attrs.frozen
class _NoCommit:
    """A stand-in for the missing commit of a group."""

    offset: int = -1


_NONE = _NoCommit()


async def _page(port: int, name: str) -> str:
    def read() -> str:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/{name}", timeout=_DEADLINE) as response:
            return str(response.read().decode())

    return await trio.to_thread.run_sync(read)


def metrics(text: str) -> dict[str, Any]:
    """Return each metric's type and labels, with the values of those labels whose values the code fixes."""
    found: dict[str, Any] = {}
    for family in text_string_to_metric_families(text):
        labels: dict[str, set[str]] = {}
        for sample in family.samples:
            for name, value in sample.labels.items():
                labels.setdefault(name, set()).update([value] if name in _FIXED_LABELS else [])
        if not family.name.startswith("sarameya_"):
            continue  # a process metric of the Prometheus library
        found[family.name] = {"type": family.type, "labels": {name: sorted(values) for name, values in labels.items()}}
    return found


def _logged(lines: Iterable[str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for line in map(json.loads, lines):
        if "event" in line:
            found[line["event"]] = sorted(line)
    return found


async def documents(table: Path, cluster: EmbeddedCluster, *, only: str = "") -> dict[str, dict[str, str]]:
    """Run the commands with `--json`. Return the paths and types of the values that each command prints.

    Args:
        table: a Parquet table, recorded by the old build.
        cluster: the cluster with the topic and the groups of the table.
        only: the name of the only command to run; all if empty.
    """
    where = ["--bootstrap", ",".join(cluster.bootstrap_servers)]
    commands = {
        "verify": ["verify", str(table), *where, "--quiet"],
        "sweep": ["sweep", str(table), "--older-than", "1d", "--quiet"],
        "rewind": ["rewind", str(table), "--to-head", *where, "--quiet"],
        "groups list": ["groups", "list", *where],
        "groups describe": ["groups", "describe", "parquet-plain", *where],
        "groups offsets reset": [
            "groups",
            "offsets",
            "reset",
            "parquet-plain",
            "--all-topics",
            "--to-earliest",
            *where,
        ],
        "topics list": ["topics", "list", *where],
        "topics describe": ["topics", "describe", "orders", *where],
        "compact": ["compact", str(table), "--quiet"],
    }
    return {
        name: await trio.to_thread.run_sync(partial(_document, [*command, "--json"]))
        for name, command in commands.items()
        if only in ("", name)
    }


def _document(argv: list[str], run: Callable[[list[str]], int] = main) -> dict[str, str]:
    with redirect_stdout(StringIO()) as out, redirect_stderr(StringIO()) as err:
        code = run(argv)
    assert code == 0, (argv, out.getvalue(), err.getvalue())
    return paths(json.loads(out.getvalue()))
