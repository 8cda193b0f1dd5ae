"""The services of a run: `sarameya run app.toml`, restarted as a supervisor such as systemd would do."""

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
{extra_options}

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
    """The values of an app file that differ between the services of a run."""

    name: str
    table: str
    master: str
    conf: Mapping[str, Any]
    strategy: str
    workers: int = 1
    max_age: float = 4.0
    extra_options: str = ""
    """Further lines for `[handler.options]`."""

    @property
    def group(self) -> str:
        return f"chaos-{self.name}"

    @property
    def spark(self) -> list[str]:
        """Spark arguments of a command on this table; none for Parquet, whose commands need no Spark."""
        if self.table.startswith("parquet:"):
            return []
        conf = [argument for key, value in self.conf.items() for argument in ("--conf", f"{key}={value}")]
        return ["--spark", self.master, *conf]

    def write(self, path: Path, bootstrap: Sequence[str], topic: str) -> None:
        conf = ", ".join(f"{json.dumps(key)} = {json.dumps(value)}" for key, value in self.conf.items())
        values = {"group": self.group, "topic": topic, "strategy": self.strategy, "workers": self.workers}
        quoted = {
            "bootstrap": json.dumps(bootstrap),
            "table": json.dumps(self.table),
            "master": json.dumps(self.master),
        }
        text = _APP.format(
            **values, **quoted, conf=f"{{ {conf} }}", max_age=self.max_age, extra_options=self.extra_options
        )
        path.write_text(text, encoding="utf-8")


@attrs.frozen
class ServiceExit:
    """The end of a process of a service."""

    service: str
    code: int
    was_requested: bool
    """True if SIGTERM was sent before."""
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
        """The number of callers who want the service stopped: two faults may overlap."""
        self._should_run = trio.Event()
        self._ended = trio.Event()
        self._ended.set()

    @property
    def pid(self) -> int | None:
        """Id of the started process, while it runs."""
        return self._process.pid if self._process is not None and self._process.returncode is None else None

    @property
    def environment(self) -> dict[str, str]:
        """Environment of the service's processes, and of commands on its table."""
        name, _, value = self._mark.partition("=")
        return {**os.environ, **quick_spark(), name: value}

    def start(self) -> None:
        """Let the service run again, as soon as every `stop` has been followed by its `start`."""
        self._stops = max(0, self._stops - 1)
        if self._stops == 0:
            self._should_run.set()

    async def stop(self) -> bool:
        """Stop the service by SIGTERM. Return False if it had to be killed."""
        if self._stops == 0:
            self._should_run = trio.Event()
        self._stops += 1
        if self._process is not None and self.pid is not None:
            self._process.terminate()
        with trio.move_on_after(STOP_SECONDS):
            await self._ended.wait()  # also of a process that is only being started: `_run` terminates it
            return True
        if self._process is not None and self.pid is not None:
            self._process.kill()
        await self._ended.wait()
        return False

    async def keep_running(self, on_end: Callable[[ServiceExit], None]) -> None:
        """Start the service whenever it should run and does not, until cancelled.

        Args:
            on_end: called at the end of each process.
        """
        number = 0
        while True:
            await self._should_run.wait()
            self._ended = trio.Event()
            log = self._app_file.with_name(f"{self.name}-{number:03d}.log")
            try:
                code = await self._run(log)
            finally:
                self._ended.set()
            on_end(ServiceExit(self.name, code, not self._should_run.is_set(), log))
            number += 1
            await trio.sleep(_RESTART_SECONDS)

    def workers(self) -> list[int]:
        """Return the ids of the processes that are members."""
        if self.app.workers == 1:
            return [self.pid] if self.pid is not None else []
        return [pid for pid, command in self.processes().items() if "sarameya" in command and pid != self.pid]

    def jvms(self) -> list[int]:
        return [pid for pid in self.processes() if is_running(pid) and _name(pid) == "java"]

    def processes(self) -> dict[int, str]:
        """Return the command of each living process that the service has started, by process id, orphans included."""
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
            if not self._should_run.is_set():  # `stop` was called meanwhile
                self._process.terminate()
            return await self._process.wait()
        finally:
            if self._process.returncode is None:
                self._process.send_signal(signal.SIGKILL)
                with trio.CancelScope(shield=True):
                    await self._process.wait()


def _name(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:  # the process has just ended
        return ""
