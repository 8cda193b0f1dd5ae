"""A service at work with its pages, for a browser to look at: `sarameya run` as a process, on an embedded cluster."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import attrs
import trio

from sarameya.embedded import EmbeddedCluster

HANDLERS = '''
from pathlib import Path
import trio
from sarameya import Activity, ConsumerGroupHandler, Landed, LandingFailed, TopicPartition

FAILED = set()


class Told(ConsumerGroupHandler):
    """Does with each message what that says; what fails does so once."""

    async def consume_claim(self, session, claim):
        here = TopicPartition(claim.topic, claim.partition)
        async for message in claim:
            what, _, rest = (message.value or b"").decode().partition(" ")
            if what == "slow":
                await trio.sleep(float(rest))
            elif what == "until":
                while not Path(rest).exists():
                    await trio.sleep(0.05)
            elif what == "pause":
                session.pause([here])
            elif what == "hold":
                claim.hold(int(rest))
            elif what == "land":
                with claim.report.doing(Activity.LANDING):
                    await trio.sleep(float(rest))
                claim.report.landed = message.offset + 1
                rows, at = 1234, message.offset
                told = {"partition": here, "from_offset": at, "to_offset": at + 1}
                session.tell(Landed(**told, rows=rows, size_bytes=5 * 2**20, seconds=0.25))
            elif what == "retry":
                landing = {"partition": here, "from_offset": message.offset, "to_offset": message.offset + 1}
                session.tell(LandingFailed(**landing, cause=rest))
                with claim.report.doing(Activity.RETRYING, rest, attempt=2):
                    await trio.sleep(600)
            elif what == "fail" and (here, message.offset) not in FAILED:
                FAILED.add((here, message.offset))
                disk = OSError(28, "No space left on device")
                disk.add_note("while <b>writing</b>")
                raise ExceptionGroup("two of them", [ValueError("cannot do <i>that</i>"), disk])
            session.mark_message(message)
'''


@attrs.frozen
class Service:
    """A running one."""

    process: trio.Process
    url: str
    log: Path

    async def answer(self, path: str) -> tuple[int, str]:
        """Return the service's response to a GET."""
        return await trio.to_thread.run_sync(get, self.url + path)

    async def status(self) -> Any:
        return json.loads((await self.answer("/status.json"))[1])


def get(url: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(url, timeout=5) as response:
            return response.status, response.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def write_app(
    directory: Path,
    servers: list[str],
    topics: tuple[str, ...],
    config: str,
    service: str,
    group: str,
    handler: str = "told:Told",
) -> None:
    """The app file, and the handler that it names."""
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "told.py").write_text(HANDLERS)
    (directory / "app.toml").write_text(
        f"""
        bootstrap_servers = {json.dumps(servers)}
        group = {json.dumps(group)}
        topics = {json.dumps(topics)}
        handler.name = {json.dumps(handler)}
        [config]
        offset_initial = "oldest"
        autocommit_interval = 0.2
        {config}
        [service]
        http = "127.0.0.1:0"
        log_format = "json"
        {service}
        """
    )


@asynccontextmanager
async def running(
    directory: Path,
    cluster: EmbeddedCluster,
    *arguments: str,
    topics: tuple[str, ...] = ("orders",),
    config: str = "",
    service: str = "",
    group: str = "orders-landing",
    handler: str = "told:Told",
) -> AsyncIterator[Service]:
    """`sarameya run`, warnings being errors, its pages at a port of its own; killed if it still runs at the end."""
    write_app(directory, cluster.bootstrap_servers, topics, config, service, group, handler)
    command = [sys.executable, "-W", "error", "-m", "sarameya.service", "run", "app.toml", *arguments]
    log = directory / "log"
    with log.open("wb") as out:
        process = await trio.lowlevel.open_process(command, cwd=directory, stdout=subprocess.DEVNULL, stderr=out)
    try:
        with trio.fail_after(30):
            while (found := re.search(r"http://[^ \"]+", log.read_text())) is None:
                assert process.poll() is None, log.read_text()
                await trio.sleep(0.05)
        yield Service(process, found.group(), log)
    finally:
        with trio.CancelScope(shield=True):
            if process.poll() is None:
                process.kill()
            await process.wait()
