"""Whatever is wrong, of whatever command: a line that says what to do, an exit code that is not 0, and a traceback by
`--debug` alone."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

import pytest

from sarameya.service.cli import main
from tests.service.cli.test_help import parsers

NOBODY = ["--bootstrap", "127.0.0.1:1", "--timeout", "0.2"]

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
    (["dashboard", *NOBODY], 2, "no group is named: give --group NAME, or name it by "),
    (["dashboard", "--group", "g", *NOBODY, "--http", "a..b:0"], 2, "--http = 'a..b:0': cannot be listened at: "),
    (["dashboard", "--group", "g", *NOBODY, "--member", "ftp://a"], 2, "must be a URL, for example http://"),
    (["dashboard", "--group", "g", *NOBODY, "--member", "http://a:x"], 2, "must be a URL, for example http://"),
    (["dashboard", "--group", "g", *NOBODY, "--member", "http://a/?b=c"], 2, "must be a URL, for example http://"),
    (
        ["dashboard", "--group", "g", *NOBODY, "--member", "http://u:p4ss@a"],
        2,
        "--member: must have no user or password",
    ),
    (["groups", "list", *NOBODY], 1, "start the broker, or correct bootstrap_servers"),
    (["groups", "list", "--app", "missing.toml"], 2, "missing.toml: cannot be read: No such file or directory"),
    (["groups", "describe", "g", "--properties", "missing"], 2, "missing: cannot be read: No such file or directory"),
    (["groups", "delete", "g", *NOBODY], 1, "start the broker, or correct bootstrap_servers"),
    (["groups", "offsets", "reset", "g", "--all-topics", "--to-latest", *NOBODY], 1, "start the broker, or correct "),
    (["groups", "offsets", "delete", "g", "--all-topics", *NOBODY], 1, "start the broker, or correct "),
    (["topics", "list", *NOBODY], 1, "start the broker, or correct bootstrap_servers"),
    (["topics", "list", *NOBODY, "-o", "x=1"], 2, "sarameya topics list: config.x = 1: no such option; "),
    (["topics", "describe", "a", *NOBODY], 1, "start the broker, or correct bootstrap_servers"),
    (["topics", "create", "a", *NOBODY], 1, "start the broker, or correct bootstrap_servers"),
    (["topics", "grow", "a", "--partitions", "3", *NOBODY], 1, "start the broker, or correct bootstrap_servers"),
    (["topics", "delete", "a", *NOBODY], 1, "start the broker, or correct bootstrap_servers"),
    (["letters", "list", "a", *NOBODY], 1, "start the broker, or correct bootstrap_servers"),
    (["letters", "show", "a", *NOBODY], 1, "start the broker, or correct bootstrap_servers"),
    (["letters", "redrive", "a", "--to", "a", *NOBODY], 2, "'a' is the topic of the letters: name another one by --to"),
    (["verify", "missing"], 2, "missing does not exist: name the table as "),
    (["verify", "icberg:x"], 2, "did you mean iceberg:x?"),
    (["verify", "a-file"], 2, "a-file is not a directory: name the table as "),
    (["sweep", "missing", "--older-than", "2d"], 2, "missing does not exist: name the table as "),
    (["sweep", "missing", "--older-than", "1s"], 2, "--force allows it"),
    (["compact", "missing"], 2, "missing does not exist: name the table as "),
    (["compact", "delta:/x"], 2, "by its own means"),
    (["rewind", "a-file", "--to-head", *NOBODY], 2, "a-file is not a directory: "),
    (["rewind", "missing", "--to-head", "--quiet", *NOBODY], 2, "TABLE = 'missing': the directory "),
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


@pytest.mark.parametrize(("argv", "code", "told"), WRONG, ids=[" ".join(argv) for argv, _, _ in WRONG])
def test_what_is_wrong_is_a_line_with_the_remedy(
    argv: list[str], code: int, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(argv) == code
    out, err = capsys.readouterr()
    assert out == ""
    (line,) = err.splitlines()
    assert line.startswith("sarameya: error: ")
    assert told in line

    if "(see `" not in line:  # what the parser refuses has no traceback
        assert main([*argv, "--debug"]) == code
        assert "Traceback (most recent call last):" in capsys.readouterr().err


@pytest.mark.parametrize("argv", [["groups", "list"], ["topics", "describe", "a"]])
def test_unreachable_cluster_is_one_line(argv: list[str]) -> None:
    # In a process of its own: here pytest keeps what is logged.
    command = [sys.executable, "-m", "sarameya.service", *argv, "--bootstrap", "127.0.0.1:1", "--timeout", "1"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        "sarameya: error: no broker could be reached: 127.0.0.1:1: Connection refused (gave up after 1 s); "
        "start the broker, or correct bootstrap_servers\n"
    )
    done = subprocess.run([*command, "--debug"], capture_output=True, text=True, check=False)
    assert "DEBUG   retrying: what=metadata attempt=2 " in done.stderr


def test_taken_port_is_a_passing_failure(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    head = 'bootstrap_servers = ["127.0.0.1:1"]\ngroup = "g"\ntopics = ["orders"]\nhandler.name = "print"\n'
    (tmp_path / "app.toml").write_text(head)
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = str(server.getsockname()[1])
        for argv in (
            ["broker", "--port", port],
            ["dashboard", "--group", "g", *NOBODY, "--http", f"127.0.0.1:{port}"],
            ["run", "app.toml", "--http", f"127.0.0.1:{port}"],
        ):
            assert main(argv) == 1
            assert f"127.0.0.1:{port}" in capsys.readouterr().err


def test_every_command_is_tried() -> None:
    leaves = {parser.prog for parser in parsers() if parser._subparsers is None}
    tried = {" ".join(["sarameya", *argv]) for argv, _, _ in WRONG}
    assert {prog for prog in leaves if not any(f"{line} ".startswith(f"{prog} ") for line in tried)} == set()


def test_every_command_that_prints_a_table_has_a_document_too() -> None:
    without = {parser.prog for parser in parsers() if parser._subparsers is None and not _has(parser, "--json")}
    # Those that run until they are stopped, and those that print a file.
    assert without == {
        "sarameya run",
        "sarameya land",
        "sarameya broker",
        "sarameya dashboard",
        "sarameya config docs",
        "sarameya completion",
    }


def test_every_command_that_takes_its_time_can_be_quiet() -> None:
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
