"""`sarameya config`: effective values with their origins, without secrets."""

from __future__ import annotations

import json
from pathlib import Path

import attrs
import pytest

from sarameya import Claim, Config, ConsumerGroupHandler, Session
from sarameya.service.cli import main
from sarameya.service.cli.options_page import page

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
name = "{__name__}:Handler"
[handler.options]
table = "parquet:x"
password = "{CANARY}"
since = 2026-01-31
limits = [inf, -inf, nan, 1.5]
url = "https://me:{CANARY}@registry/"
[handler.options.spark]
conf = {{ "spark.driver.memory" = "4g", "spark.hadoop.fs.s3a.secret.key" = "{CANARY}" }}
"""


class Handler(ConsumerGroupHandler):
    """Handler that accepts any options."""

    def __init__(self, *, rows: int = 5, **others: object) -> None: ...

    async def consume_claim(self, session: Session, claim: Claim) -> None: ...


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SARAMEYA_CONFIG_CLIENT_ID", "mine")
    monkeypatch.setenv("SARAMEYA_HANDLER_OPTIONS_TOKEN", CANARY)
    (tmp_path / "app.toml").write_text(FILE)
    return tmp_path / "app.toml"


def shown_settings(path: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, tuple[object, str]]:
    """Return the output of `config show --json`: key -> value and origin."""
    assert main(["config", "show", str(path), "--json"]) == 0
    document = json.loads(capsys.readouterr().out, parse_constant=pytest.fail)
    assert document["app_file"] == str(path)
    return {row["key"]: (row["value"], row["origin"]) for row in document["settings"]}


def test_every_value_is_shown_with_its_origin(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    settings = shown_settings(path, capsys)
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
        "handler.name": (f"{__name__}:Handler", file),
        "handler.options.table": ("parquet:x", file),
        "handler.options.since": ("2026-01-31", file),
        "handler.options.limits": (["inf", "-inf", "nan", 1.5], file),
        "handler.options.spark.conf.spark.driver.memory": ("4g", file),
        "handler.options.rows": (5, "default"),
        "service.workers": (1, "default"),
    }
    assert {key: settings[key] for key in expected} == expected
    assert {f"config.{field.name}" for field in attrs.fields(Config)} - {"config.topics"} <= settings.keys()
    assert "topics" not in settings


def test_secrets_are_masked(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    settings = shown_settings(path, capsys)
    assert settings["handler.options.password"] == ("***", str(path))
    assert settings["handler.options.token"] == ("***", "SARAMEYA_HANDLER_OPTIONS_TOKEN")
    assert settings["handler.options.spark.conf.spark.hadoop.fs.s3a.secret.key"] == ("***", str(path))
    assert settings["handler.options.url"] == ("https://me:***@registry/", str(path))
    assert CANARY not in str(settings)
    assert main(["config", "show", str(path)]) == 0
    assert CANARY not in capsys.readouterr().out


def test_table_has_key_value_and_origin(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["config", "show", str(path)]) == 0
    header, *lines = capsys.readouterr().out.splitlines()
    assert header.split() == ["KEY", "VALUE", "ORIGIN"]
    rows = {line.split()[0]: line.split(maxsplit=1)[1] for line in lines}
    assert rows["config.session_timeout"].split() == ["6", str(path)]
    assert rows["config.client_id"].split() == ['"mine"', "SARAMEYA_CONFIG_CLIENT_ID"]
    assert rows["config.retry_timeout"].split() == ["-", "default"]
    assert rows["config.autocommit"].split() == ["true", "default"]


def test_invalid_app_file_is_reported(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path.write_text(FILE.replace("session_timeout = 6", f'sasl_pasword = "{CANARY}"'))
    assert main(["config", "show", str(path)]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"sarameya: error: {path}: config.sasl_pasword = ***: no such option")
    assert CANARY not in err


@pytest.mark.parametrize(
    ("handler", "message"),
    [
        (
            'name = "print"\noptions.fromat = "json"',
            "handler.options.fromat = 'json': no such option; did you mean 'format'?",
        ),
        ('name = "print"\noptions.format = "xml"', "handler.options.format = 'xml': must be one of 'text', 'json'"),
        ('name = "pritn"', "no handler is called 'pritn'; did you mean 'print'?"),
        ('name = "no_such_module:Handler"', "handler 'no_such_module:Handler': "),
    ],
)
def test_unbuildable_handler_is_reported_as_by_run(
    handler: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "app.toml"
    path.write_text(f"{FILE.partition('[config]')[0]}[handler]\n{handler}\n")
    for command in (["config", "show"], ["run"]):
        assert main([*command, str(path)]) == 2
        out, err = capsys.readouterr()
        assert out == ""
        assert err.startswith(f"sarameya: error: {path}: {message}")


def test_given_options_override_defaults_of_the_handler(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "app.toml"
    lines = [
        'name = "spark"',
        'options.table = "parquet:x"',
        "options.max_age = 3",
        'options.spark.master = "local[1]"',
    ]
    path.write_text("\n".join([FILE.partition("[config]")[0], "[handler]", *lines]))
    settings = shown_settings(path, capsys)
    assert settings["handler.options.max_age"] == (3, str(path))
    assert settings["handler.options.max_rows"] == (250_000, "default")
    assert settings["handler.options.spark.master"] == ("local[1]", str(path))
    assert settings["handler.options.spark.max_jobs"] == (2, "default")
    path.write_text("\n".join([FILE.partition("[config]")[0], "[handler]", 'name = "print"']))
    assert shown_settings(path, capsys)["handler.options.format"] == ("text", "default")


def test_reference_is_printed_or_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["config", "docs"]) == 0
    assert capsys.readouterr().out == page()
    assert main(["config", "docs", "--output", str(tmp_path / "page.md")]) == 0
    assert capsys.readouterr().out == ""
    assert (tmp_path / "page.md").read_text(encoding="utf-8") == page()
