"""The group's members: processes of `sarameya run`, with their own Spark drivers or one Spark Connect server."""

from __future__ import annotations

import json
import signal
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import attrs
import trio

from bench.landing_day.programs.sink import Line
from bench.members.running import MemberError, Program, open_program

START_SECONDS = 180.0
"""Time to join: a member starts a JVM, perhaps while others keep all processors busy."""
_END_SECONDS = 120.0

_APP = """
bootstrap_servers = ["{bootstrap}"]
group = "{group}"
topics = ["{topic}"]

# As in examples/landing.toml.
[config]
offset_initial = "oldest"
session_timeout = 10.0
rebalance_timeout = 60.0
claim_grace = 35.0
close_timeout = 45.0

[handler]
name = "bench.landing_day.programs.sink:ReportingSink"

[handler.options]
table = {table}
max_age = {max_age}
transform = "bench.common.events:parse"

[handler.options.spark]
master = "{master}"
conf = {conf}

[service]
on_failure = "stop"
"""


@attrs.frozen
class Members:
    """Members of one group. The end of the block of `open_group` kills them."""

    bootstrap: str
    group: str
    topic: str
    kind: str
    place: Path
    master: str
    conf: Mapping[str, str]
    max_age: float
    _nursery: trio.Nursery
    _directory: Path
    live: list[Program[Line]] = attrs.field(factory=list)
    """Members that were started, and neither left nor were killed."""

    async def start(self) -> Program[Line]:
        """Start a member."""
        app = self._directory / f"{len(list(self._directory.iterdir()))}.toml"
        app.write_text(self._app(), encoding="utf-8")
        command = [sys.executable, "-m", "sarameya.service", "run", str(app)]
        member: Program[Line] = await self._nursery.start(_hold, command)
        self.live.append(member)
        return member

    async def balanced(self, partitions: int) -> None:
        """Wait until each live member owns an even share of the partitions. Raises MemberError."""
        for member in self.live:
            await member.until(self._has(member, partitions), "an even share of the partitions", START_SECONDS)

    def _has(self, member: Program[Line], partitions: int) -> Callable[[], bool]:
        least, most = partitions // len(self.live), -(-partitions // len(self.live))
        return lambda: bool(member.lines) and least <= member.lines[-1].partitions <= most

    def check(self) -> None:
        """Raise MemberError if a live member has ended."""
        for member in self.live:
            if member.process.returncode is not None:
                raise MemberError(f"a member has ended with {member.process.returncode}: {member.last_error()}")

    async def leave(self, member: Program[Line]) -> None:
        """Stop a member with SIGTERM, so that it leaves the group. Raises MemberError."""
        self.live.remove(member)
        member.process.send_signal(signal.SIGTERM)
        with trio.move_on_after(_END_SECONDS):
            if code := await member.process.wait():
                raise MemberError(f"a member ended with {code} after SIGTERM: {member.last_error()}")
            return
        raise MemberError(f"a member did not end within {_END_SECONDS:g} s: {member.last_error()}")

    async def kill(self, member: Program[Line]) -> None:
        """Kill a member with SIGKILL."""
        self.live.remove(member)
        member.process.kill()
        await member.process.wait()

    def _app(self) -> str:
        place = f"{self.kind}:{self.place}"
        settings = ", ".join(f"{json.dumps(name)} = {json.dumps(value)}" for name, value in self.conf.items())
        return _APP.format(
            bootstrap=self.bootstrap,
            group=self.group,
            topic=self.topic,
            table=json.dumps(place),
            max_age=self.max_age,
            master=self.master,
            conf=f"{{ {settings} }}",
        )


@asynccontextmanager
async def open_group(**fields: Any) -> AsyncIterator[Members]:
    """Open a group without members. `fields` are those of `Members` up to `max_age`."""
    with tempfile.TemporaryDirectory() as directory:
        async with trio.open_nursery() as nursery:
            yield Members(**fields, nursery=nursery, directory=Path(directory))
            nursery.cancel_scope.cancel()


async def _hold(command: Sequence[str], task_status: trio.TaskStatus[Program[Line]]) -> None:
    """Run a member until cancelled."""
    async with open_program(command, Line.of_json) as member:
        task_status.started(member)
        await trio.sleep_forever()
