"""Precedence of the environment, an app file and its .properties file, and the origin of each value."""

from __future__ import annotations

from pathlib import Path

import pytest

from sarameya import Config, Secret
from sarameya.service.app.app_file import AppFileError, load, load_app

FILE = """
bootstrap_servers = ["localhost:9092"]
group = "g"
topics = ["orders"]
handler = { name = "print" }
config = { client_id = "file", session_timeout = 6 }
"""
WITH_PROPERTIES = """
properties = "kafka/client.properties"
topics = ["orders"]
handler = { name = "print" }
config = { session_timeout = 6 }
"""
PROPERTIES = """
bootstrap.servers = a:1, b:2
group.id = orders
session.timeout.ms = 30000
heartbeat.interval.ms = 1000
client.id = beneath
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "kafka").mkdir()
    (tmp_path / "kafka" / "client.properties").write_text(PROPERTIES)
    (tmp_path / "app.toml").write_text(WITH_PROPERTIES)
    return tmp_path / "app.toml"


def test_app_file_overrides_its_properties(path: Path) -> None:
    app = load_app(path, {})
    assert (app.bootstrap_servers, app.group) == (("a:1", "b:2"), "orders")
    assert app.config == Config(client_id="beneath", session_timeout=6, heartbeat_interval=1.0)


def test_environment_overrides_app_file_and_properties(path: Path) -> None:
    environ = {"SARAMEYA_GROUP": "mine", "SARAMEYA_CONFIG_SESSION_TIMEOUT": "12", "SARAMEYA_CONFIG_CLIENT_ID": "x"}
    app = load_app(path, environ)
    assert (app.group, app.config) == ("mine", Config(client_id="x", session_timeout=12, heartbeat_interval=1.0))


def test_environment_may_name_the_properties(path: Path) -> None:
    (path.parent / "other.properties").write_text("bootstrap.servers=c:3\ngroup.id=g\n")
    app = load_app(path, {"SARAMEYA_PROPERTIES": "other.properties"})
    assert (app.bootstrap_servers, app.config) == (("c:3",), Config(session_timeout=6))


def test_environment_may_complete_the_properties(path: Path) -> None:
    with (path.parent / "kafka" / "client.properties").open("a") as properties:
        properties.write("security.protocol=SASL_SSL\nsasl.mechanism=SCRAM-SHA-256\n")
    (path.parent / "password").write_text("sesame\n")
    environ = {
        "SARAMEYA_CONFIG_SASL_USERNAME": "alice",
        "SARAMEYA_CONFIG_SASL_PASSWORD_FILE": str(path.parent / "password"),
    }
    config = load_app(path, environ).config
    assert (config.sasl_username, config.sasl_password) == ("alice", Secret("sesame"))
    with pytest.raises(AppFileError, match="sasl_username = None: must be given"):
        load_app(path, {})


def test_origin_of_properties_is_their_file(path: Path) -> None:
    layers = load(path, {"SARAMEYA_CONFIG_CLIENT_ID": "x"}).layers
    properties = str(path.parent / "kafka" / "client.properties")
    assert {key: layers.origin(key) for key in ("group", "bootstrap_servers", "config.heartbeat_interval")} == {
        "group": properties,
        "bootstrap_servers": properties,
        "config.heartbeat_interval": properties,
    }
    assert layers.origin("config.session_timeout") == str(path)
    assert layers.origin("config.client_id") == "SARAMEYA_CONFIG_CLIENT_ID"
    assert layers.origin("config.rack_id") == "default"


def problems_of(path: Path) -> list[str]:
    with pytest.raises(AppFileError) as caught:
        load_app(path, {})
    return [problem.removeprefix(f"{path}: ") for problem in caught.value.problems]


def test_invalid_properties_are_reported_with_all_mistakes(path: Path) -> None:
    properties = path.parent / "kafka" / "client.properties"
    properties.write_text(PROPERTIES + "max.poll.records=5\nsesion.timeout.ms=1\n")
    path.write_text(WITH_PROPERTIES.replace("config = {", 'bootstrap_servers = ["a:1"]\ngroup = ""\nconfig = {'))
    problems = problems_of(path)
    assert problems[0] == "group = '': must be a non-empty string"
    assert problems[1].startswith(f"{properties}: max.poll.records = '5': has no meaning here")
    assert problems[2].startswith(f"{properties}: sesion.timeout.ms = '1': is not a property")


@pytest.mark.parametrize("line", ["security.protocol=SASL_PLAINTEXT\nsesion.timeout.ms=1", "sasl.mechanizm=PLAIN"])
def test_invalid_properties_cause_no_other_problem(path: Path, line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("P", "sesame")
    properties = path.parent / "kafka" / "client.properties"
    properties.write_text(f"bootstrap.servers=a:1\ngroup.id=g\n{line}\n")
    options = '{ sasl_username = "a", sasl_password = "env:P", rack_id = 5 }'
    path.write_text(WITH_PROPERTIES.replace("{ session_timeout = 6 }", options))
    wrong, typo = problems_of(path)
    assert wrong == "config.rack_id = 5: must be a string"
    assert typo.startswith(f"{properties}: {line.splitlines()[-1].partition('=')[0]} = ")


def test_invalid_property_is_reported_with_its_file(path: Path) -> None:
    properties = path.parent / "kafka" / "client.properties"
    properties.write_text("bootstrap.servers=nowhere\ngroup.id=g\n")
    [problem] = problems_of(path)
    assert problem.startswith("bootstrap_servers = ['nowhere']: must be a non-empty list of 'host:port' strings")
    assert problem.endswith(f"(by {properties})")


@pytest.mark.parametrize("value", ["5", '""', "[]"])
def test_properties_must_be_a_file_name(path: Path, value: str) -> None:
    path.write_text(FILE.replace("config = {", f"properties = {value}\nconfig = {{"))
    [problem] = problems_of(path)
    assert problem.startswith("properties = ")


def test_missing_properties_file_is_reported(path: Path) -> None:
    (path.parent / "kafka" / "client.properties").unlink()
    assert f"{path.parent}/kafka/client.properties: cannot be read: No such file or directory" in problems_of(path)


@pytest.mark.parametrize(
    ("key", "origin"),
    [
        ("group", "{path}"),
        ("config.client_id", "SARAMEYA_CONFIG_CLIENT_ID"),
        ("config.session_timeout", "{path}"),
        ("config.autocommit", "default"),
        ("service.workers", "default"),
        ("config.topics.orders.eu.offset_initial", "{path}"),
        ("config.topics.orders.eu.offset_out_of_range", "default"),
        ("handler.options.a", "SARAMEYA_HANDLER_OPTIONS_A"),
        ("handler.options.a.b", "SARAMEYA_HANDLER_OPTIONS_A"),
        ("handler.options.ab", "default"),
    ],
)
def test_origin_of_each_value_is_known(tmp_path: Path, key: str, origin: str) -> None:
    path = tmp_path / "app.toml"
    path.write_text(
        FILE.replace('["orders"]', '["orders.eu"]') + '[config.topics."orders.eu"]\noffset_initial = "oldest"\n'
    )
    path.write_text(
        path.read_text().replace(
            'config = { client_id = "file", session_timeout = 6 }', "[config]\nsession_timeout = 6"
        )
    )
    loaded = load(path, {"SARAMEYA_CONFIG_CLIENT_ID": "x", "SARAMEYA_HANDLER_OPTIONS_A": "{ b = 1 }"})
    assert loaded.layers.origin(key) == origin.format(path=path)


def test_printed_app_and_layers_hide_secrets(path: Path) -> None:
    canary = "kAnarienv0gel"
    text = WITH_PROPERTIES.replace(
        '{ name = "print" }', f'{{ name = "print", options = {{ password = "{canary}", table = "x" }} }}'
    )
    path.write_text(text)
    loaded = load(path, {"SARAMEYA_HANDLER_OPTIONS_TOKEN": canary})
    assert loaded.app.handler.options == {"password": canary, "table": "x", "token": canary}
    assert canary not in repr(loaded)
    assert "{'password': ***, 'table': 'x', 'token': ***}" in repr(loaded.app)


def test_environment_has_topics_by_name_or_by_pattern(path: Path) -> None:
    (path.parent / "pattern").write_text("orders-.*\n")
    for name, value in (
        ("SARAMEYA_TOPICS_PATTERN", "orders-.*"),
        ("SARAMEYA_TOPICS_PATTERN_FILE", f"{path.parent}/pattern"),
    ):
        with pytest.raises(AppFileError) as caught:
            load_app(path, {"SARAMEYA_TOPICS": "orders", name: value})
        assert list(caught.value.problems) == [f"{path}: SARAMEYA_TOPICS and {name} are both set: set one of them"]
        assert load_app(path, {name: value}).topics_pattern == "orders-.*"
