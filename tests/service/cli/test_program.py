from __future__ import annotations

import argparse
import json
import subprocess
import sys
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path

import pytest

from sarameya._version import __version__
from sarameya.service.cli import commands, main


def greet(parser: argparse.ArgumentParser) -> None:
    """A command of another package."""

    def run(args: argparse.Namespace) -> int:
        if args.name == "ctrl-c":
            raise KeyboardInterrupt
        if args.name == "ctrl-c in a nursery":
            raise BaseExceptionGroup("", [KeyboardInterrupt()])
        if args.name == "exit":
            raise SystemExit("no more today")
        if args.name == "bug":
            raise ValueError("a bug")
        print(f"hello {args.name}")
        return 7

    parser.description = "Greets somebody. Or does not."
    parser.add_argument("name")
    parser.set_defaults(run=run)


class Broken:
    """An object with an attribute that cannot be imported."""

    @property
    def command(self) -> None:
        raise RuntimeError("no licence")


broken = Broken()


def half(parser: argparse.ArgumentParser) -> None:
    """A command that fails when it adds its arguments."""
    parser.add_argument("name")
    parser.add_argument("name", required=True)


class Summarized:
    """A command whose summary is known without calling it."""

    summary = "waves from afar"

    def __call__(self, parser: argparse.ArgumentParser) -> None:
        raise RuntimeError("called for its summary")


wave = Summarized()


@pytest.fixture(autouse=True)
def installed_commands(monkeypatch: pytest.MonkeyPatch) -> None:
    others = [
        EntryPoint("greet", f"{__name__}:greet", commands.ENTRY_POINT_GROUP),
        EntryPoint("absent", "made_up_module:command", commands.ENTRY_POINT_GROUP),
        EntryPoint("broken", f"{__name__}:broken.command", commands.ENTRY_POINT_GROUP),
        EntryPoint("half", f"{__name__}:half", commands.ENTRY_POINT_GROUP),
        EntryPoint("wave", f"{__name__}:wave", commands.ENTRY_POINT_GROUP),
    ]
    monkeypatch.setattr(commands, "entry_points", EntryPoints(others).select)


def test_command_of_another_package_is_run_with_its_exit_code(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["greet", "world"]) == 7
    assert capsys.readouterr() == ("hello world\n", "")


def test_unimportable_foreign_command_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["absent"]) == 2
    assert capsys.readouterr().err == (
        "sarameya: error: command 'absent' cannot be imported: No module named 'made_up_module'\n"
    )


@pytest.mark.parametrize(
    ("argv", "code", "errors"),
    [
        (["greet", "broken"], 7, ""),
        (["broken"], 2, "sarameya: error: command 'broken' cannot be imported: RuntimeError: no licence\n"),
        (
            ["half"],
            2,
            "sarameya: error: command 'half' cannot be imported: "
            "TypeError: 'required' is an invalid argument for positionals\n",
        ),
        (["greet", "exit"], 1, "no more today\n"),
    ],
)
def test_broken_command_fails_only_when_called(
    argv: list[str], code: int, errors: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(argv) == code
    assert capsys.readouterr().err == errors


@pytest.mark.parametrize("name", ["greet", "run"])
def test_command_with_a_duplicate_name_is_ignored_with_warning(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    others = [
        EntryPoint("greet", f"{__name__}:greet", commands.ENTRY_POINT_GROUP),
        EntryPoint(name, f"{__name__}:broken.command", commands.ENTRY_POINT_GROUP),
    ]
    monkeypatch.setattr(commands, "entry_points", EntryPoints(others).select)
    main([name, "--help"])
    warning = f"sarameya: the command {name!r} of {__name__} is ignored: another command has the same name\n"
    assert capsys.readouterr().err == warning
    main(["--help"])
    assert capsys.readouterr().err == ""


def test_command_of_another_package_uses_the_log_options() -> None:
    # In its own process, since logging is configured once per process.
    program = (
        "import logging, sys\n"
        "from importlib.metadata import EntryPoint, EntryPoints\n"
        "from sarameya.service.cli import commands\n"
        "from sarameya.service.cli import main\n"
        "from sarameya.service.process.app_runner import add_run_arguments\n"
        "def add(parser):\n"
        "    parser.description = 'All about logging.'\n"
        "    add_run_arguments(parser)\n"
        "    parser.set_defaults(run=lambda args: logging.getLogger('theirs').info('heard') or 0)\n"
        "entry = EntryPoint('say', '__main__:add', commands.ENTRY_POINT_GROUP)\n"
        "commands.entry_points = EntryPoints([entry]).select\n"
        "sys.exit(main(sys.argv[1:]))"
    )
    for argv, seen in (["say"], True), (["say", "--log-level", "warning"], False):
        done = subprocess.run([sys.executable, "-c", program, *argv], capture_output=True, text=True, check=True)
        assert ("INFO    heard" in done.stderr) is seen
    argv = ["say", "--log-format", "json"]
    done = subprocess.run([sys.executable, "-c", program, *argv], capture_output=True, text=True, check=True)
    assert json.loads(done.stderr)["message"] == "heard"
    done = subprocess.run([sys.executable, "-c", program, "say", "--help"], capture_output=True, text=True, check=True)
    assert "All about logging." in done.stdout


def test_help_lists_every_command_and_the_exit_codes(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    text = capsys.readouterr().out
    assert all(name in text for name in ("run", "broker", "greet", "absent", "exit codes: 0"))
    assert " ".join(text.split()).count("greets somebody") == 1
    assert "Or does not" not in text
    assert "waves from afar" in text


def test_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"sarameya {__version__}\n"


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        ([], "the following arguments are required: COMMAND (see `sarameya --help`)"),
        (["run"], "the following arguments are required: APP.toml (see `sarameya run --help`)"),
        (["run", "a.toml", "--nope"], "unrecognized arguments: --nope (see `sarameya run --help`)"),
        (
            ["run", "a.toml", "--htpp=x:1"],
            "unrecognized arguments: --htpp; did you mean --http? (see `sarameya run --help`)",
        ),
        (
            ["topics", "list", "--sasl-password=hunter2", "--sasl-user", "alice"],
            "unrecognized arguments: --sasl-password --sasl-user (see `sarameya topics list --help`)",
        ),
        (["run", "a.toml", "extra"], "unrecognized arguments: extra (see `sarameya run --help`)"),
        (
            ["run", "a.toml", "--deb"],
            "unrecognized arguments: --deb; did you mean --debug? (see `sarameya run --help`)",
        ),
        (
            ["run", "a.toml", "--workers", "0"],
            "argument --workers: '0' must be a whole number of at least 1 (see `sarameya run --help`)",
        ),
        (
            ["broker", "--port", "65536"],
            "argument --port: '65536' must be a port from 0 to 65535 (see `sarameya broker --help`)",
        ),
        (
            ["broker", "--topic", "orders"],
            "argument --topic: 'orders' must be NAME:PARTITIONS, for example orders:4, with 1 to 10000 "
            "partitions (see `sarameya broker --help`)",
        ),
        (
            ["broker", "--topic", "orders:0"],
            "argument --topic: 'orders:0' must be NAME:PARTITIONS, for example orders:4, with 1 to 10000 "
            "partitions (see `sarameya broker --help`)",
        ),
    ],
)
def test_wrong_usage_prints_one_line_and_exits_with_2(
    argv: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(argv) == 2
    assert capsys.readouterr() == ("", f"sarameya: error: {message}\n")


@pytest.mark.parametrize("how", ["ctrl-c", "ctrl-c in a nursery"])
def test_unhandled_ctrl_c_exits_with_130_without_output(how: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["greet", how]) == 130
    assert capsys.readouterr() == ("", "")


def test_failure_prints_one_line_and_suggests_debug(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["greet", "bug"]) == 1
    assert capsys.readouterr().err == "sarameya: error: ValueError: a bug\nsarameya: add --debug to see the traceback\n"


def test_failure_with_debug_has_the_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["greet", "bug", "--debug"]) == 1
    assert capsys.readouterr().err.startswith("Traceback (most recent call last):\n")


APP = """
bootstrap_servers = ["localhost:9092"]
group = "g"
topics = ["orders"]
[handler]
name = "print"
"""


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("nmae = 'print'", "handler.nmae = 'print': no such option; did you mean 'name'?"),
        ("options.colour = 'red'", "handler.options.colour = 'red': "),
    ],
)
def test_mistake_in_the_app_file_is_reported_with_its_key(
    tmp_path: Path, line: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "app.toml"
    path.write_text(APP + line)
    assert main(["run", str(path)]) == 2
    assert capsys.readouterr().err.startswith(f"sarameya: error: {path}: {message}")


def test_unknown_handler_is_reported_with_the_installed_ones(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "app.toml"
    path.write_text(APP.replace('"print"', '"prnt"'))
    assert main(["run", str(path)]) == 2
    assert capsys.readouterr().err.startswith(
        f"sarameya: error: {path}: no handler is called 'prnt'; did you mean 'print'? "
        "the installed handlers are 'print', 'spark'"
    )
