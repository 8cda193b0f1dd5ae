"""Mistakes in every command: one line with the remedy, an exit code above 0, and a traceback only with `--debug`."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

import pytest

from sarameya.service.cli import main
from tests.service.cli.test_help import parsers

UNREACHABLE = ["--bootstrap", "127.0.0.1:1", "--timeout", "0.2"]

WRONG = [
    (["run", "missing.toml"], 2, "missing.toml: cannot be read: No such file or directory"),
    (["run", "a-file"], 2, "a-file: is not TOML: "),
    (["config", "show", "missing.toml"], 2, "missing.toml: cannot be read: No such file or directory"),
    (
        ["config", "docs", "--output", "no/such"],
        2,
        "--output = 'no/such': cannot be written: No such file or directory",
    ),
    (["broker", "--host", "a..b"], 2, "--host, --port = 'a..b:9092': cannot be listened at: "),
    (["dashboard", *UNREACHABLE], 2, "no group is named: give --group NAME, or name it by "),
    (["dashboard", "--group", "g", *UNREACHABLE, "--http", "a..b:0"], 2, "--http = 'a..b:0': cannot be listened at: "),
    (["dashboard", "--group", "g", *UNREACHABLE, "--member", "ftp://a"], 2, "must be a URL, for example http://"),
    (["dashboard", "--group", "g", *UNREACHABLE, "--member", "http://a:x"], 2, "must be a URL, for example http://"),
    (["dashboard", "--group", "g", *UNREACHABLE, "--member", "http://a/?b=c"], 2, "must be a URL, for example http://"),
    (
        ["dashboard", "--group", "g", *UNREACHABLE, "--member", "http://u:p4ss@a"],
        2,
        "--member: must have no user or password",
    ),
    (["groups", "list", *UNREACHABLE], 1, "start the broker, or correct bootstrap_servers"),
    (["groups", "list", "--app", "missing.toml"], 2, "missing.toml: cannot be read: No such file or directory"),
    (["groups", "describe", "g", "--properties", "missing"], 2, "missing: cannot be read: No such file or directory"),
    (["groups", "delete", "g", *UNREACHABLE], 1, "start the broker, or correct bootstrap_servers"),
    (
        ["groups", "offsets", "reset", "g", "--all-topics", "--to-latest", *UNREACHABLE],
        1,
        "start the broker, or correct ",
    ),
    (["groups", "offsets", "delete", "g", "--all-topics", *UNREACHABLE], 1, "start the broker, or correct "),
    (["topics", "list", *UNREACHABLE], 1, "start the broker, or correct bootstrap_servers"),
    (["topics", "list", *UNREACHABLE, "-o", "x=1"], 2, "sarameya topics list: config.x = 1: no such option; "),
    (["topics", "describe", "a", *UNREACHABLE], 1, "start the broker, or correct bootstrap_servers"),
    (["topics", "create", "a", *UNREACHABLE], 1, "start the broker, or correct bootstrap_servers"),
    (["topics", "grow", "a", "--partitions", "3", *UNREACHABLE], 1, "start the broker, or correct bootstrap_servers"),
    (["topics", "delete", "a", *UNREACHABLE], 1, "start the broker, or correct bootstrap_servers"),
    (["letters", "list", "a", *UNREACHABLE], 1, "start the broker, or correct bootstrap_servers"),
    (["letters", "show", "a", *UNREACHABLE], 1, "start the broker, or correct bootstrap_servers"),
    (
        ["letters", "redrive", "a", "--to", "a", *UNREACHABLE],
        2,
        "'a' is the topic of the letters: name another one by --to",
    ),
    (["verify", "missing"], 2, "missing does not exist: name the table as "),
    (["verify", "icberg:x"], 2, "did you mean iceberg:x?"),
    (["verify", "a-file"], 2, "a-file is not a directory: name the table as "),
    (["sweep", "missing", "--older-than", "2d"], 2, "missing does not exist: name the table as "),
    (["sweep", "missing", "--older-than", "1s"], 2, "--force allows it"),
    (["compact", "missing"], 2, "missing does not exist: name the table as "),
    (["compact", "delta:/x"], 2, "its format's own commands"),
    (["rewind", "a-file", "--to-head", *UNREACHABLE], 2, "a-file is not a directory: "),
    (["rewind", "missing", "--to-head", "--quiet", *UNREACHABLE], 2, "TABLE = 'missing': the directory "),
    (
        ["land", "--to", "x", "--group", "g", "--topic", "t", "--bootstrap", "a:1", "--set", "file_bytes=no"],
        2,
        "sarameya land: handler.options.file_bytes = 'no': must be a whole number of at least 1 (by --set)",
    ),
    (["completion", "fish"], 2, "invalid choice: 'fish' (choose from "),
]


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a-file").write_text("nothing of use")
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(("argv", "code", "message"), WRONG, ids=[" ".join(argv) for argv, _, _ in WRONG])
def test_mistake_prints_one_line_with_the_remedy(
    argv: list[str], code: int, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(argv) == code
    out, err = capsys.readouterr()
    assert out == ""
    (line,) = err.splitlines()
    assert line.startswith("sarameya: error: ")
    assert message in line

    if "(see `" not in line:  # errors of the argument parser have no traceback
        assert main([*argv, "--debug"]) == code
        assert "Traceback (most recent call last):" in capsys.readouterr().err


@pytest.mark.parametrize("argv", [["groups", "list"], ["topics", "describe", "a"]])
def test_unreachable_cluster_prints_one_line(argv: list[str]) -> None:
    # In its own process, since pytest captures the log in this one.
    command = [sys.executable, "-m", "sarameya.service", *argv, "--bootstrap", "127.0.0.1:1", "--timeout", "1"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        "sarameya: error: no broker could be reached: 127.0.0.1:1: Connection refused (gave up after 1 s); "
        "start the broker, or correct bootstrap_servers\n"
    )
    done = subprocess.run([*command, "--debug"], capture_output=True, text=True, check=False)
    assert "DEBUG   retrying: what=metadata attempt=2 " in done.stderr


def test_port_in_use_exits_with_1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    head = 'bootstrap_servers = ["127.0.0.1:1"]\ngroup = "g"\ntopics = ["orders"]\nhandler.name = "print"\n'
    (tmp_path / "app.toml").write_text(head)
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = str(server.getsockname()[1])
        for argv in (
            ["broker", "--port", port],
            ["dashboard", "--group", "g", *UNREACHABLE, "--http", f"127.0.0.1:{port}"],
            ["run", "app.toml", "--http", f"127.0.0.1:{port}"],
        ):
            assert main(argv) == 1
            assert f"127.0.0.1:{port}" in capsys.readouterr().err


def test_every_command_has_a_wrong_input() -> None:
    leaves = {parser.prog for parser in parsers() if parser._subparsers is None}
    tried = {" ".join(["sarameya", *argv]) for argv, _, _ in WRONG}
    assert {prog for prog in leaves if not any(f"{line} ".startswith(f"{prog} ") for line in tried)} == set()


def test_every_command_that_prints_a_table_has_json() -> None:
    without = {parser.prog for parser in parsers() if parser._subparsers is None and not _has(parser, "--json")}
    # Commands that run until they are stopped, and commands that print a file.
    assert without == {
        "sarameya run",
        "sarameya land",
        "sarameya broker",
        "sarameya dashboard",
        "sarameya config docs",
        "sarameya completion",
    }


def test_every_slow_command_has_a_quiet_option() -> None:
    quiet = {parser.prog for parser in parsers() if _has(parser, "--quiet")}
    assert quiet == {
        "sarameya land",
        "sarameya verify",
        "sarameya sweep",
        "sarameya compact",
        "sarameya rewind",
        "sarameya groups offsets reset",
        "sarameya letters list",
        "sarameya letters redrive",
    }


def _has(parser: object, option: str) -> bool:
    return option in parser._option_string_actions  # type: ignore[attr-defined]
