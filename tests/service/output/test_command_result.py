"""Texts printed to stdout."""

from __future__ import annotations

import io
import sys

import pytest

from sarameya.service.output.command_result import print_out


@pytest.mark.parametrize(
    ("encoding", "written"),
    [("utf-8", "né…\n".encode()), ("latin-1", b"n\xe9\\u2026\n"), ("ascii", b"n\\xe9\\u2026\n")],
)
def test_characters_that_stdout_cannot_encode_are_escaped(
    encoding: str, written: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(out, encoding, newline=""))
    assert print_out("né…\n")
    assert out.getvalue() == written
