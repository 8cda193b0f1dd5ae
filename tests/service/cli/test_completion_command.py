"""`sarameya completion`: the script, and a real bash that uses it."""

from __future__ import annotations

import os
import pty
import re
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from sarameya import install_command
from sarameya.service.cli import main
from tests.service.cli.test_help import parsers

DEADLINE = 30.0
PROMPT = "ready> "


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> Path:
    done = subprocess.run(
        [sys.executable, "-m", "sarameya.service", "completion", "bash"], capture_output=True, text=True, check=True
    )
    path = tmp_path_factory.mktemp("completion") / "sarameya"
    path.write_text(done.stdout)
    return path


class Bash:
    """An interactive bash in its own terminal."""

    def __init__(self, terminal: int) -> None:
        self._terminal = terminal

    def type(self, keys: str) -> None:
        os.write(self._terminal, keys.encode())

    def until(self, *texts: str) -> str:
        """Return the output once it contains all of these texts."""
        written, ends = "", time.monotonic() + DEADLINE
        while not all(text in written for text in texts):
            left = ends - time.monotonic()
            ready, _, _ = select.select([self._terminal], [], [], max(left, 0))
            assert ready, f"{texts} are not in {written!r}"
            written += os.read(self._terminal, 65536).decode()
        return written


@contextmanager
def bash(script: Path, directory: Path) -> Iterator[Bash]:
    controller, terminal = pty.openpty()
    environment = {**os.environ, "TERM": "dumb", "PS1": PROMPT, "INPUTRC": "/dev/null", "COLUMNS": "200"}
    process = subprocess.Popen(
        ["bash", "--norc", "--noprofile", "-i"],
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
        cwd=directory,
        env=environment,
        start_new_session=True,
    )
    os.close(terminal)
    try:
        shell = Bash(controller)
        shell.until(PROMPT)
        shell.type(f"PS1='{PROMPT}'; source {script}; echo sour''ced\n")
        shell.until("sourced")
        yield shell
    finally:
        process.kill()
        process.wait()
        os.close(controller)


@pytest.mark.parametrize(
    ("typed", "completed"),
    [
        ("sarameya topi", "sarameya topics "),
        ("sarameya lan", "sarameya land "),
        ("sarameya verif", "sarameya verify "),
        ("sarameya groups offsets re", "sarameya groups offsets reset "),
        ("sarameya land --print", "sarameya land --print-app "),
        ("sarameya run --log-level warn", "sarameya run --log-level warning "),
        ("sarameya run my-la", "sarameya run my-landing.toml"),
        ("sarameya topics list --properties cli", "sarameya topics list --properties client.properties"),
    ],
)
def test_bash_completes(typed: str, completed: str, script: Path, tmp_path: Path) -> None:
    (tmp_path / "my-landing.toml").touch()
    (tmp_path / "client.properties").touch()
    with bash(script, tmp_path) as shell:
        shell.type(f"{typed}\t")
        assert completed in shell.until(completed)


@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_script_knows_every_command_and_option(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", shell]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    known = set(re.findall(r"[\w-]+", out))
    for parser in parsers():
        assert set(parser.prog.split()) <= known
        shown = [action for action in parser._actions if action.help != "==SUPPRESS=="]
        assert {name.lstrip("-") for action in shown for name in action.option_strings} <= {
            word.lstrip("-") for word in known
        }
    assert "--worker " not in out, "an internal option"


def test_missing_shtab_is_reported_with_its_installation(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "shtab", None)
    assert main(["completion", "bash"]) == 2
    message = f"sarameya: error: completion needs shtab: {install_command('service')}\n"
    assert capsys.readouterr() == ("", message)
    assert "'shtab>=" in message
