"""The outcome of a `sarameya` process that has ended."""

from __future__ import annotations

import json
from subprocess import CompletedProcess
from typing import Any, Self

import attrs


@attrs.frozen
class Outcome:
    """Output and exit code of a `sarameya` process."""

    code: int
    out: str
    err: str

    @classmethod
    def of(cls, done: CompletedProcess[bytes]) -> Self:
        """Return the outcome of a process whose two streams were captured."""
        return cls(done.returncode, done.stdout.decode(), done.stderr.decode())

    @property
    def document(self) -> Any:
        assert self.code == 0, self.err
        return json.loads(self.out)
