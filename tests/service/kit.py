"""Commands of `sarameya`, run in the process of the test, which also runs an embedded cluster."""

from __future__ import annotations

import json
from typing import Any

import attrs
import pytest
import trio

from sarameya.service.cli import main


@attrs.frozen
class Outcome:
    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        return json.loads(self.out)


async def called(capsys: pytest.CaptureFixture[str], *argv: str) -> Outcome:
    """Run the command in a thread, and return its exit code and output."""
    capsys.readouterr()
    with trio.fail_after(30):
        code = await trio.to_thread.run_sync(main, argv)
    return Outcome(code, *capsys.readouterr())
