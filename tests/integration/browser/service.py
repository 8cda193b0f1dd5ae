"""A running service with status pages for browser tests: `sarameya run` as a process, on an embedded cluster."""

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


class Commanded(ConsumerGroupHandler):
    """Executes the command in each message's value. A "fail" fails only the first time."""

    async def consume_claim(self, session, claim):
        tp = TopicPartition(claim.topic, claim.partition)
        async for message in claim:
            command, _, argument = (message.value or b"").decode().partition(" ")
            if command == "slow":
                await trio.sleep(float(argument))
            elif command == "until":
                while not Path(argument).exists():
                    await trio.sleep(0.05)
            elif command == "pause":
                session.pause([tp])
            elif command == "hold":
                claim.hold(int(argument))
            elif command == "land":
                with claim.report.doing(Activity.LANDING):
                    await trio.sleep(float(argument))
                claim.report.landed = message.offset + 1
                rows, at = 1234, message.offset
                batch = {"partition": tp, "from_offset": at, "to_offset": at + 1}
                session.notify(Landed(**batch, rows=rows, size_bytes=5 * 2**20, seconds=0.25))
            elif command == "retry":
                batch = {"partition": tp, "from_offset": message.offset, "to_offset": message.offset + 1}
                session.notify(LandingFailed(**batch, cause=argument))
                with claim.report.doing(Activity.RETRYING, argument, attempt=2):
                    await trio.sleep(600)
            elif command == "fail" and (tp, message.offset) not in FAILED:
                FAILED.add((tp, message.offset))
                disk = OSError(28, "No space left on device")
                disk.add_note("while <b>writing</b>")
                raise ExceptionGroup("two of them", [ValueError("cannot do <i>that</i>"), disk])
            session.mark_message(message)
'''


@attrs.frozen
class Service:
    """A running service, with the URL of its pages and its log."""

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
    handler: str = "commanded:Commanded",
) -> None:
    """Write an app file, and the module of its handler.

    Args:
        directory: the directory to write to.
        servers: addresses of brokers.
        topics: the topics to consume.
        config: further lines of `[config]`.
        service: further lines of `[service]`.
        group: the id of the group.
        handler: the name of the handler.
    """
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "commanded.py").write_text(HANDLERS)
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
    handler: str = "commanded:Commanded",
) -> AsyncIterator[Service]:
    """Run `sarameya run` until the block ends, with warnings as errors and its pages at a free port.

    `arguments` are further arguments of the command. See `write_app` for the other parameters.
    """
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
