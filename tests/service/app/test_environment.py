"""Environment variables that override an app file."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import get_type_hints

import attrs
import pytest

from sarameya import Config, Secret, TopicConfig
from sarameya.option_kinds import secret
from sarameya.service.app import environment
from sarameya.service.app.app_file import AppFileError, ServiceSection, load_app
from sarameya.service.app.environment import Variable, variables

FILE = """
bootstrap_servers = ["localhost:9092"]
group = "g"
topics = ["orders"]
handler = { name = "print" }
config = { client_id = "file", session_timeout = 6 }
"""
CANARY = "kAnarienv0gel"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "app.toml").write_text(FILE)
    return tmp_path / "app.toml"


def found(environ: dict[str, str]) -> list[Variable]:
    variables_, problems = variables(environ, get_type_hints(ServiceSection))
    assert problems == []
    return variables_


def problems_of(environ: dict[str, str]) -> list[str]:
    return [line for _, line in variables(environ, get_type_hints(ServiceSection))[1]]


def test_variables_override_only_their_values_of_the_file(path: Path) -> None:
    app = load_app(
        path,
        {
            "SARAMEYA_BOOTSTRAP_SERVERS": "a:1, b:2",
            "SARAMEYA_GROUP": "5",
            "SARAMEYA_TOPICS": "orders,returns",
            "SARAMEYA_CONFIG_SESSION_TIMEOUT": "12.5",
            "SARAMEYA_CONFIG_AUTOCOMMIT": "false",
            "SARAMEYA_CONFIG_GROUP_INSTANCE_ID": "007",
            "SARAMEYA_CONFIG_REBALANCE_STRATEGIES": "sticky,range",
            "SARAMEYA_CONFIG_OFFSET_INITIAL": "2026-01-31T12:00:00Z",
            "SARAMEYA_CONFIG_TOPICS": '{ orders = { offset_initial = "oldest" } }',
            "SARAMEYA_SERVICE_WORKERS": "3",
            "SARAMEYA_SERVICE_ON_FAILURE": "restart",
            "SARAMEYA_HANDLER_NAME": "mine:Handler",
            "SARAMEYA_HANDLER_OPTIONS_TABLE": "parquet:x",
            "SARAMEYA_HANDLER_OPTIONS_FLUSH": "{ max_rows = 5 }",
            "PATH": "/bin",
        },
    )
    assert (app.bootstrap_servers, app.group, app.topics) == (("a:1", "b:2"), "5", ("orders", "returns"))
    assert app.config == Config(
        client_id="file",
        session_timeout=12.5,
        autocommit=False,
        group_instance_id="007",
        rebalance_strategies=("sticky", "range"),
        offset_initial=datetime(2026, 1, 31, 12, tzinfo=UTC),
        topics={"orders": TopicConfig(offset_initial="oldest")},
    )
    assert (app.service.workers, app.service.on_failure) == (3, "restart")
    assert (app.handler.name, app.handler.options) == ("mine:Handler", {"table": "parquet:x", "flush": {"max_rows": 5}})


def test_environment_defaults_to_the_process(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SARAMEYA_GROUP", "mine")
    assert load_app(path).group == "mine"
    assert load_app(path, {}).group == "g"


@pytest.mark.parametrize("field", [f.name for f in attrs.fields(Config)])
def test_every_option_has_its_variable(field: str) -> None:
    [variable] = found({f"SARAMEYA_CONFIG_{field.upper()}": "5"})
    assert variable.key == f"config.{field}"


@pytest.mark.parametrize("field", [f.name for f in attrs.fields(ServiceSection)])
def test_every_key_of_the_service_has_its_variable(field: str) -> None:
    [variable] = found({f"SARAMEYA_SERVICE_{field.upper()}": "5"})
    assert variable.key == f"service.{field}"


def test_pattern_in_the_environment_replaces_topics(path: Path) -> None:
    app = load_app(path, {"SARAMEYA_TOPICS_PATTERN": "orders-.*"})
    assert (app.topics, app.topics_pattern) == ((), "orders-.*")


# -- files -----------------------------------------------------------------------------------------


def test_variable_may_name_a_file_with_the_value(path: Path, tmp_path: Path) -> None:
    (tmp_path / "word").write_text("g2\n")
    assert load_app(path, {"SARAMEYA_GROUP_FILE": str(tmp_path / "word")}).group == "g2"
    options = load_app(path, {"SARAMEYA_HANDLER_OPTIONS_TOKEN_FILE": str(tmp_path / "word")}).handler.options
    assert options == {"token": "g2"}


def test_value_and_file_together_are_refused() -> None:
    [problem] = problems_of({"SARAMEYA_GROUP_FILE": "x", "SARAMEYA_GROUP": "g"})
    assert problem == "SARAMEYA_GROUP_FILE and SARAMEYA_GROUP are both set: set one of them"


def test_unreadable_file_is_reported_with_its_variable(path: Path) -> None:
    with pytest.raises(AppFileError) as caught:
        load_app(path, {"SARAMEYA_GROUP_FILE": "/none"})
    assert caught.value.problems == (
        f"{path}: SARAMEYA_GROUP_FILE: the file /none cannot be read: No such file or directory",
    )


@attrs.frozen
class Secretive:
    """Options with a secret, like a Config."""

    word: Secret | None = secret("what opens it")
    ca_file: str = ""


def test_secret_option_accepts_a_value_or_a_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(environment, "Config", Secretive)
    (tmp_path / "word").write_text("env:x\n")
    [variable] = found({"SARAMEYA_CONFIG_WORD": "5"})
    assert variable.value == "5"  # text, although it is a number in TOML
    [variable] = found({"SARAMEYA_CONFIG_WORD_FILE": str(tmp_path / "word")})
    assert variable.value == Secret("env:x")


def test_option_whose_name_ends_in_file_is_an_option(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment, "Config", Secretive)
    assert found({"SARAMEYA_CONFIG_CA_FILE": "/x"}) == [Variable("SARAMEYA_CONFIG_CA_FILE", "config.ca_file", "/x")]


@pytest.mark.parametrize("value", ["12345678", "true", "[1]", '"quoted"'])
def test_value_of_a_secret_name_is_always_text(value: str) -> None:
    [variable] = found({"SARAMEYA_HANDLER_OPTIONS_PASSWORD": value})
    assert variable.value == value


# -- mistakes --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("SARAMEYA_CONFIG_SESION_TIMEOUT", "did you mean SARAMEYA_CONFIG_SESSION_TIMEOUT? "),
        ("SARAMEYA_HANDLER_OPTONS_X", "did you mean SARAMEYA_HANDLER_OPTIONS_X? "),
        ("SARAMEYA_HANDLR_OPTIONS_MAX_AGE_FILE", "did you mean SARAMEYA_HANDLER_OPTIONS_MAX_AGE_FILE? "),
        ("SARAMEYA_GRUOP_FILE", "did you mean SARAMEYA_GROUP_FILE? "),
        ("SARAMEYA_TOPIC", "did you mean SARAMEYA_TOPICS? "),
        ("SARAMEYA_SESSION_TIMEOUT", "did you mean SARAMEYA_CONFIG_SESSION_TIMEOUT? "),
        ("SARAMEYA_HANDLER_OPTIONS_", ""),
        ("SARAMEYA_", ""),
    ],
)
def test_unknown_variable_is_refused_without_its_value(name: str, hint: str) -> None:
    [problem] = problems_of({name: CANARY})
    assert problem.startswith(f"{name}: no such variable; {hint}")
    assert CANARY not in problem


@pytest.mark.parametrize(
    "name",
    [
        "SARAMEYA_SHARED_OPTIONS",
        "SARAMEYA_SOAK",
        "SARAMEYA_SERVICE_HOST",
        "SARAMEYA_SERVICE_PORT",
        "SARAMEYA_SERVICE_PORT_HTTP",
        "SARAMEYA_PORT",
        "SARAMEYA_PORT_8080_TCP",
        "SARAMEYA_PORT_8080_TCP_ADDR",
        "SARAMEYA_METRICS_SERVICE_HOST",
        "SARAMEYAN",
    ],
)
def test_variables_of_other_programs_are_ignored(name: str) -> None:
    assert found({name: "tcp://10.0.0.1:8080"}) == []


def test_invalid_value_is_reported_with_its_variable(path: Path) -> None:
    with pytest.raises(AppFileError) as caught:
        load_app(
            path,
            {
                "SARAMEYA_GROUP": "",
                "SARAMEYA_CONFIG_SESSION_TIMEOUT": "6s",
                "SARAMEYA_SERVICE_WORKERS": "0",
                "SARAMEYA_GRUOP": "x",
            },
        )
    assert caught.value.problems == (
        f"{path}: config.session_timeout = '6s': must be a number above 0 and at most 2147483 "
        "(by SARAMEYA_CONFIG_SESSION_TIMEOUT)",
        f"{path}: service.workers = 0: must be a whole number of at least 1 (by SARAMEYA_SERVICE_WORKERS)",
        f"{path}: SARAMEYA_GROUP: must not be empty: unset it",
        f"{path}: SARAMEYA_GRUOP: no such variable; did you mean SARAMEYA_GROUP? `sarameya config docs` lists all "
        "options",
    )


def test_value_in_place_of_a_table_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "app.toml"
    path.write_text(FILE.replace("config = {", "service = 5\nconfig = {"))
    with pytest.raises(AppFileError, match="service = 5: must be a table"):
        load_app(path, {"SARAMEYA_SERVICE_WORKERS": "2"})
