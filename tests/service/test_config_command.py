"""`sarameya config`: effective values with their origins, and nothing secret among them."""

from __future__ import annotations

import json
from pathlib import Path

import attrs
import pytest

from sarameya import Config
from sarameya.service.cli import main
from sarameya.service.options_page import page

CANARY = "kAnarienv0gel"
FILE = f"""
bootstrap_servers = ["localhost:9092"]
group = "g"
topics_pattern = "orders.*"
[config]
session_timeout = 6
rebalance_strategies = ["sticky"]
offset_initial = "by_duration:PT1H"
[config.topics."orders.eu"]
offset_initial = 2026-01-31T12:00:00Z
[handler]
name = "no.such.module:Handler"
[handler.options]
table = "parquet:x"
password = "{CANARY}"
since = 2026-01-31
url = "https://me:{CANARY}@registry/"
[handler.options.spark]
conf = {{ "spark.driver.memory" = "4g", "spark.hadoop.fs.s3a.secret.key" = "{CANARY}" }}
"""


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SARAMEYA_CONFIG_CLIENT_ID", "mine")
    monkeypatch.setenv("SARAMEYA_HANDLER_OPTIONS_TOKEN", CANARY)
    (tmp_path / "app.toml").write_text(FILE)
    return tmp_path / "app.toml"


def told(path: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, tuple[object, str]]:
    """What `config show --json` says: key -> value and origin."""
    assert main(["config", "show", str(path), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["app_file"] == str(path)
    return {row["key"]: (row["value"], row["origin"]) for row in document["settings"]}


def test_every_value_is_told_with_its_origin(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    settings = told(path, capsys)
    file = str(path)
    expected = {
        "bootstrap_servers": (["localhost:9092"], file),
        "group": ("g", file),
        "topics_pattern": ("orders.*", file),
        "config.client_id": ("mine", "SARAMEYA_CONFIG_CLIENT_ID"),
        "config.session_timeout": (6, file),
        "config.heartbeat_interval": (3.0, "default"),
        "config.rebalance_strategies": (["sticky"], file),
        "config.retry_timeout": (None, "default"),
        "config.offset_initial": ("by_duration:PT1H", file),
        "config.topics.orders.eu.offset_initial": ("timestamp:2026-01-31T12:00:00Z", file),
        "handler.name": ("no.such.module:Handler", file),
        "handler.options.table": ("parquet:x", file),
        "handler.options.since": ("2026-01-31", file),
        "handler.options.spark.conf.spark.driver.memory": ("4g", file),
        "service.workers": (1, "default"),
    }
    assert {key: settings[key] for key in expected} == expected
    assert {f"config.{field.name}" for field in attrs.fields(Config)} - {"config.topics"} <= settings.keys()
    assert "topics" not in settings


def test_secrets_are_told_to_be_there_and_not_shown(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    settings = told(path, capsys)
    assert settings["handler.options.password"] == ("***", str(path))
    assert settings["handler.options.token"] == ("***", "SARAMEYA_HANDLER_OPTIONS_TOKEN")
    assert settings["handler.options.spark.conf.spark.hadoop.fs.s3a.secret.key"] == ("***", str(path))
    assert settings["handler.options.url"] == ("https://me:***@registry/", str(path))
    assert CANARY not in str(settings)
    assert main(["config", "show", str(path)]) == 0
    assert CANARY not in capsys.readouterr().out


def test_table_is_for_persons(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["config", "show", str(path)]) == 0
    header, *lines = capsys.readouterr().out.splitlines()
    assert header.split() == ["KEY", "VALUE", "ORIGIN"]
    rows = {line.split()[0]: line.split(maxsplit=1)[1] for line in lines}
    assert rows["config.session_timeout"].split() == ["6", str(path)]
    assert rows["config.client_id"].split() == ['"mine"', "SARAMEYA_CONFIG_CLIENT_ID"]
    assert rows["config.retry_timeout"].split() == ["-", "default"]
    assert rows["config.autocommit"].split() == ["true", "default"]


def test_app_that_could_not_be_run_is_told_so(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path.write_text(FILE.replace("session_timeout = 6", f'sasl_pasword = "{CANARY}"'))
    assert main(["config", "show", str(path)]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"sarameya: error: {path}: config.sasl_pasword = ***: no such option")
    assert CANARY not in err


def test_reference_is_printed_or_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["config", "docs"]) == 0
    assert capsys.readouterr().out == page()
    assert main(["config", "docs", "--output", str(tmp_path / "page.md")]) == 0
    assert capsys.readouterr().out == ""
    assert (tmp_path / "page.md").read_text(encoding="utf-8") == page()
