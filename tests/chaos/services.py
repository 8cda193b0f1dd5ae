"""The services of a run: `sarameya run app.toml`, kept running as a supervisor such as systemd keeps it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
import trio

from tests.integration.class_data import quick_spark
from tests.integration.peers.running import ROOT
from tests.integration.processes import is_running, marked_processes

MARK = "CHAOS_SERVICE"
STOP_SECONDS = 90.0
"""From SIGTERM to the end: `close_timeout`, Spark's end, and a busy machine."""
_RESTART_SECONDS = 1.0

_APP = """
bootstrap_servers = {bootstrap}
group = "{group}"
topics = ["{topic}"]

[config]
offset_initial = "oldest"
rebalance_strategies = ["{strategy}"]
metadata_max_age = 10.0
session_timeout = 10.0
rebalance_timeout = 60.0
claim_grace = 35.0
close_timeout = 45.0

[handler]
name = "spark"

[handler.options]
table = {table}
max_age = {max_age}
{more}

[handler.options.spark]
master = {master}
conf = {conf}

[service]
workers = {workers}
on_failure = "restart"
restart_backoff_max = 10.0
"""


@attrs.frozen
class App:
    """The part of an app file that differs between the services of a run."""

    name: str
    table: str
    master: str
    conf: Mapping[str, Any]
    strategy: str
    workers: int = 1
    max_age: float = 4.0
    more: str = ""

    @property
    def group(self) -> str:
        return f"chaos-{self.name}"

    @property
    def spark(self) -> list[str]:
        """The arguments of a command that asks this table, which needs Spark unless it is Parquet's."""
        if self.table.startswith("parquet:"):
            return []
        conf = [word for key, value in self.conf.items() for word in ("--conf", f"{key}={value}")]
        return ["--spark", self.master, *conf]

    def write(self, path: Path, bootstrap: Sequence[str], topic: str) -> None:
        conf = ", ".join(f"{json.dumps(key)} = {json.dumps(value)}" for key, value in self.conf.items())
        values = {"group": self.group, "topic": topic, "strategy": self.strategy, "workers": self.workers}
        quoted = {
            "bootstrap": json.dumps(bootstrap),
            "table": json.dumps(self.table),
            "master": json.dumps(self.master),
        }
        text = _APP.format(**values, **quoted, conf=f"{{ {conf} }}", max_age=self.max_age, more=self.more)
        path.write_text(text, encoding="utf-8")


@attrs.frozen
class Ending:
    """The end of a process of a service."""

    service: str
    code: int
    is_asked: bool
    """Whether SIGTERM had been sent."""
    log: Path


class Service:
    """A service of a run, and its processes."""

    def __init__(self, app: App, app_file: Path, run: str) -> None:
        self.app = app
        self.name = app.name
        self._app_file = app_file
        self._mark = f"{MARK}={run}-{app.name}"
        self._process: trio.Process | None = None
        self._stops = 1
        """Callers who want it stopped: two faults may overlap."""
        self._wanted = trio.Event()
        self._ended = trio.Event()
        self._ended.set()

    @property
    def pid(self) -> int | None:
        """Id of the started process, while it runs."""
        return self._process.pid if self._process is not None and self._process.returncode is None else None

    @property
    def environment(self) -> dict[str, str]:
        """Environment of its processes, and of commands about its table."""
        name, _, value = self._mark.partition("=")
        return {**os.environ, **quick_spark(), name: value}

    def start(self) -> None:
        """Keep the service running from now on, once each `stop` has its `start`."""
        self._stops = max(0, self._stops - 1)
        if self._stops == 0:
            self._wanted.set()

    async def stop(self) -> bool:
        """End it in order. Return False if it had to be killed."""
        if self._stops == 0:
            self._wanted = trio.Event()
        self._stops += 1
        if (pid := self.pid) is None:
            return True
        assert self._process is not None
        self._process.terminate()
        with trio.move_on_after(STOP_SECONDS):
            await self._ended.wait()
            return True
        if self.pid == pid:
            self._process.kill()
        await self._ended.wait()
        return False

    async def keep(self, on_end: Callable[[Ending], None]) -> None:
        """Run it whenever it is wanted, again and again, until cancelled."""
        number = 0
        while True:
            await self._wanted.wait()
            self._ended = trio.Event()
            log = self._app_file.with_name(f"{self.name}-{number:03d}.log")
            try:
                code = await self._run(log)
            finally:
                self._ended.set()
            on_end(Ending(self.name, code, not self._wanted.is_set(), log))
            number += 1
            await trio.sleep(_RESTART_SECONDS)

    def workers(self) -> list[int]:
        """The processes that are members."""
        if self.app.workers == 1:
            return [self.pid] if self.pid is not None else []
        return [pid for pid, command in self.processes().items() if "sarameya" in command and pid != self.pid]

    def jvms(self) -> list[int]:
        return [pid for pid in self.processes() if is_running(pid) and _name(pid) == "java"]

    def processes(self) -> dict[int, str]:
        """All that it has started, by their ids, also what has outlived it."""
        return marked_processes(self._mark)

    async def _run(self, log: Path) -> int:
        command = [sys.executable, "-m", "sarameya.service", "run", str(self._app_file), "--log-format", "text"]
        with log.open("ab") as file:
            self._process = await trio.lowlevel.open_process(
                command,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                cwd=ROOT,
                start_new_session=True,
            )
        try:
            return await self._process.wait()
        finally:
            if self._process.returncode is None:
                self._process.send_signal(signal.SIGKILL)
                with trio.CancelScope(shield=True):
                    await self._process.wait()


def _name(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:  # it has just ended
        return ""
