"""The command `sarameya land`, up to the start of Spark."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest

from sarameya.service.app.app_file import load_app
from sarameya.service.cli import main
from sarameya_handlers.spark import land_command

WHERE = ["--bootstrap", "here:9092,there:9093", "--group", "g"]


def printed(capsys: pytest.CaptureFixture[str], *argv: str) -> str:
    assert main(["land", *argv, "--print-app"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    return out


def test_app_file_equals_its_command_line(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    text = printed(
        capsys,
        *WHERE,
        *("--topic", "orders", "--topic", "pay.ments", "--to", "delta:/lake/orders"),
        *("-o", "isolation_level=read_committed", "--set", "max_rows=5", "--set", "dead_letters.path=dead"),
        *("--spark", "local[2]", "--conf", "spark.jars=a.jar,b.jar", "--workers", "2", "--in-process"),
        *("--http", "127.0.0.1:8080", "--log-format", "json"),
    )
    path = tmp_path / "app.toml"
    path.write_text(text)
    app = load_app(path)
    assert app.bootstrap_servers == ("here:9092", "there:9093")
    assert (app.group, app.topics) == ("g", ("orders", "pay.ments"))
    assert app.config.isolation_level == "read_committed"
    assert (app.service.workers, app.service.in_process) == (2, True)
    assert (app.service.http, app.service.log_format) == ("127.0.0.1:8080", "json")
    assert app.handler.name == "spark"
    assert app.handler.options == {
        "table": "delta:/lake/orders",
        "max_rows": 5,
        "dead_letters": {"path": "dead"},
        "spark": {"master": "local[2]", "conf": {"spark.jars": "a.jar,b.jar"}},
    }


def test_default_start_offset_is_oldest(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    command = [*WHERE, "--topics-pattern", "orders-.*", "--to", "parquet:x"]
    assert 'offset_initial = "oldest"' in printed(capsys, *command)
    assert 'offset_initial = "newest"' in printed(capsys, *command, "-o", "offset_initial=newest")
    properties = tmp_path / "client.properties"
    properties.write_text("auto.offset.reset = latest\n")
    assert "offset_initial" not in printed(capsys, *command, "--properties", str(properties))


def test_until_end_shortens_max_age(capsys: pytest.CaptureFixture[str]) -> None:
    command = [*WHERE, "--topic", "orders", "--to", "parquet:x"]
    assert "max_age" not in printed(capsys, *command)
    assert "max_age = 5.0" in printed(capsys, *command, "--until-end")
    assert "max_age = 60" in printed(capsys, *command, "--until-end", "--set", "max_age=60")


@pytest.mark.parametrize(
    ("argv", "lines"),
    [
        (
            ["--to", "parquet:x"],
            [
                "sarameya land: topics is missing: give --topic NAME, or --topics-pattern REGEX",
                "sarameya land: bootstrap_servers is missing: give --bootstrap HOST:PORT",
                "sarameya land: group is missing: give --group NAME; the next run starts at its committed offsets",
            ],
        ),
        (
            [*WHERE, "--topic", "a b", "--to", "parquet:x"],
            [
                "sarameya land: topics = ['a b']: must be a non-empty list of topic names (1 to 249 of the characters "
                "a-z A-Z 0-9 . _ -) (by --topic)"
            ],
        ),
        (
            [*WHERE, "--topic", "orders", "--to", "icberg:lake.db.orders"],
            [
                "sarameya land: handler.options.table = 'icberg:lake.db.orders': must be parquet:PATH, delta:PATH, "
                "delta:NAME or iceberg:CATALOG.DB.TABLE; a path alone means parquet; did you mean "
                "iceberg:lake.db.orders? (by --to)"
            ],
        ),
        (
            [*WHERE, "--topic", "orders", "--to", "x", "--set", "max_rows=no"],
            ["sarameya land: handler.options.max_rows = 'no': must be a whole number of at least 1 (by --set)"],
        ),
        (
            [*WHERE, "--topic", "orders", "--to", "x", "--set", "max_rows"],
            ["argument --set: 'max_rows' must be NAME=VALUE, for example client_id=ops (see `sarameya land --help`)"],
        ),
        (
            [*WHERE, "--topic", "orders"],
            ["the following arguments are required: --to (see `sarameya land --help`)"],
        ),
    ],
)
def test_usage_error_is_one_line_with_advice(
    argv: list[str], lines: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    for extra in [], ["--print-app"]:
        assert main(["land", *argv, *extra]) == 2
        out, err = capsys.readouterr()
        assert (out, err.splitlines()) == ("", [f"sarameya: error: {line}" for line in lines])


def test_default_log_format_is_text(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    command = [*WHERE, "--topic", "orders", "--to", "parquet:x"]
    assert 'log_format = "text"' in printed(capsys, *command)
    monkeypatch.setenv("SARAMEYA_SERVICE_LOG_FORMAT", "json")
    assert 'log_format = "json"' in printed(capsys, *command)
    assert 'log_format = "auto"' in printed(capsys, *command, "--log-format", "auto")


@pytest.mark.parametrize(("argv", "quiet"), [(["--quiet"], True), ([], False)])
def test_progress_is_shown_unless_quiet(argv: list[str], quiet: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    watched: list[object] = []
    monkeypatch.setattr(land_command, "watch_group", lambda title, **how: how)
    monkeypatch.setattr(land_command, "run_app", lambda app, layers, args, watch: watched.append(watch) or 0)
    assert main(["land", *WHERE, "--topic", "orders", "--to", "parquet:x", *argv]) == 0
    assert watched == [{"until_end": False, "quiet": quiet, "as_lines": False}]


@pytest.mark.parametrize(("variable", "argv"), [("json", []), ("text", ["--log-format", "json"])])
def test_usage_error_is_json_if_configured(
    variable: str, argv: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SARAMEYA_SERVICE_LOG_FORMAT", variable)
    monkeypatch.setattr(logging.getLogger(), "handlers", [])  # as in a new process
    monkeypatch.setattr(logging, "captureWarnings", lambda capture: None)
    assert main(["land", *WHERE, "--topic", "orders", "--to", "x", "--set", "max_rows=no", *argv]) == 2
    line = json.loads(capsys.readouterr().err)
    assert line["message"].startswith("sarameya land: handler.options.max_rows = 'no': must be a whole number")
