from __future__ import annotations

import argparse
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from sarameya.errors import ConfigError, PropertiesError
from sarameya.service.groups.arguments import add_cluster_arguments, cluster, duration, moment, offset

APP = """
bootstrap_servers = ["app:9092"]
group = "of-the-app"
topics = ["orders"]
handler.name = "print"
[config]
client_id = "app"
request_timeout = 3.0
"""


def read(*argv: str) -> Any:
    parser = argparse.ArgumentParser(exit_on_error=False)
    add_cluster_arguments(parser)
    parser.set_defaults(usage_error=lambda message: pytest.fail(message))
    return cluster(parser.parse_args(argv))


@pytest.fixture
def app_file(tmp_path: Path) -> str:
    path = tmp_path / "app.toml"
    path.write_text(APP)
    return str(path)


def test_servers_are_a_list_of_addresses() -> None:
    place = read("--bootstrap-servers", "a:9092, [::1]:9093")
    assert (place.bootstrap_servers, place.group) == (("a:9092", "[::1]:9093"), None)


@pytest.mark.parametrize("name", ["--bootstrap", "--bootstrap-servers"])
def test_servers_are_spelled_short_or_long(name: str) -> None:
    assert read(name, "a:9092").bootstrap_servers == ("a:9092",)


@pytest.fixture
def properties(tmp_path: Path) -> str:
    path = tmp_path / "client.properties"
    path.write_text("bootstrap.servers=p:1,q:2\ngroup.id=of-the-properties\nclient.id=theirs\nsasl.mechanism=PLAIN\n")
    return str(path)


SECURED = ["-o", "security_protocol=SASL_PLAINTEXT", "-o", "sasl_username=ann", "-o", "sasl_password=env:HOME"]


def test_properties_give_servers_config_and_group_and_options_what_they_lack(properties: str) -> None:
    place = read("--properties", properties, *SECURED)
    assert (place.bootstrap_servers, place.group) == (("p:1", "q:2"), "of-the-properties")
    assert (place.config.client_id, place.config.sasl_username) == ("theirs", "ann")
    assert read("--properties", properties, "--bootstrap", "mine:1", *SECURED).bootstrap_servers == ("mine:1",)


OAUTH = ["-o", "security_protocol=SASL_SSL", "-o", "sasl_mechanism=OAUTHBEARER", "-o", "sasl_token=of_groups:token"]


@pytest.mark.parametrize("beneath", ["--properties", "--app", None])
def test_option_names_the_function_that_gives_tokens(
    beneath: str | None, app_file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "of_groups.py").write_text("def token(): ...\n")
    (tmp_path / "client.properties").write_text("client.id = theirs\n")
    monkeypatch.syspath_prepend(tmp_path)
    files = {"--properties": str(tmp_path / "client.properties"), "--app": app_file}
    place = read("--bootstrap", "a:1", *([beneath, files[beneath]] if beneath else []), *OAUTH)
    assert place.config.sasl_token is not None
    assert place.config.sasl_token.__module__ == "of_groups"
    with pytest.raises(ConfigError, match=r"^-o sasl_token = .*: module 'of_groups' has no 'tokn'"):
        read("--bootstrap", "a:1", *OAUTH[:-1], "sasl_token=of_groups:tokn")


def test_properties_that_are_wrong_are_told_by_file_and_name(properties: str) -> None:
    with pytest.raises(PropertiesError) as caught:
        read("--properties", properties)
    assert str(caught.value).startswith(f"{properties}: sasl.mechanism = 'PLAIN': ")


def test_properties_lie_beneath_the_app_file_wherever_that_is(
    properties: str, app_file: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    Path(properties).write_text("client.id = theirs\nclient.rack = r\n")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    place = read("--app", app_file, "--properties", "../client.properties")
    assert (place.bootstrap_servers, place.group) == (("app:9092",), "of-the-app")
    assert (place.config.client_id, place.config.rack_id) == ("app", "r")


def test_app_file_gives_servers_config_and_group(app_file: str) -> None:
    place = read("--app", app_file)
    assert (place.bootstrap_servers, place.group, place.config.client_id) == (("app:9092",), "of-the-app", "app")


def test_servers_and_options_of_the_command_line_come_before_the_app_file(app_file: str) -> None:
    place = read("--app", app_file, "--bootstrap-servers", "mine:1", "-o", "client_id=mine", "-o", "retry_backoff=0.5")
    assert (place.bootstrap_servers, place.config.client_id, place.config.retry_backoff) == (("mine:1",), "mine", 0.5)
    assert place.config.request_timeout == 3.0


def test_nothing_is_waited_for_longer_than_the_timeout(app_file: str) -> None:
    config = read("--app", app_file, "--timeout", "2").config
    assert {
        config.bootstrap_timeout,
        config.connect_timeout,
        config.request_timeout,
        config.retry_timeout,
    } == {2.0}
    config = read("--app", app_file, "--timeout", "100").config
    assert (config.bootstrap_timeout, config.request_timeout, config.retry_timeout) == (10.0, 3.0, 100.0)


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("client_id=ops", "ops"),
        ("client_id='o ps'", "o ps"),
        ("client_id=a=b", "a=b"),
        ("client_id=", ""),
    ],
)
def test_option_that_is_no_toml_is_a_string(option: str, value: str) -> None:
    assert read("--bootstrap-servers", "a:1", "-o", option).config.client_id == value


@pytest.mark.parametrize(
    ("option", "text"),
    [
        ("clientid=x", "-o clientid = 'x': no such option; did you mean 'client_id'?"),
        ("request_timeout=soon", "-o request_timeout = 'soon': must be a number"),
    ],
)
def test_option_that_is_wrong_is_told_with_what_is_allowed(option: str, text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read("--bootstrap-servers", "a:1", "-o", option)
    assert str(caught.value).startswith(text)


@pytest.mark.parametrize(
    ("argv", "text"),
    [
        (["--bootstrap-servers", "kafka"], "'kafka' must be HOST:PORT, for example localhost:9092"),
        (["--bootstrap-servers", "a:1,,b:2"], "'' must be HOST:PORT, for example localhost:9092"),
        (["--timeout", "0"], "'0' must be a number of seconds, above 0 and up to a day"),
        (["--timeout", "nan"], "'nan' must be a number of seconds, above 0 and up to a day"),
        (["-o", "client_id"], "'client_id' must be NAME=VALUE, for example client_id=ops"),
    ],
)
def test_argument_that_is_wrong_is_told(argv: list[str], text: str) -> None:
    with pytest.raises(argparse.ArgumentError) as caught:
        read(*argv)
    assert caught.value.message == text


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1970-01-01T00:00:01", 1),
        ("1970-01-01T00:00:01.5Z", 1.5),
        ("1970-01-01T01:00:00+01:00", 0),
        ("1970-01-02", 86_400),
        ("1969-12-31T23:59:59Z", -1),
        ("2026-01-31T12:00:00.123Z", 1_769_860_800.123),
    ],
)
def test_time_is_iso_8601_and_without_a_zone_utc(text: str, seconds: float) -> None:
    assert moment(text) == round(seconds * 1000)


@pytest.mark.parametrize("text", ["", "yesterday", "31.1.2026", "2026-13-01"])
def test_time_that_cannot_be_read_is_told_with_an_example(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="must be a date and time of ISO 8601, for example"):
        moment(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("PT90S", timedelta(seconds=90)),
        ("PT0.5S", timedelta(seconds=0.5)),
        ("PT2H30M", timedelta(hours=2.5)),
        ("P1D", timedelta(days=1)),
        ("P2W", timedelta(weeks=2)),
        ("P1DT12H", timedelta(hours=36)),
    ],
)
def test_duration_is_iso_8601(text: str, expected: timedelta) -> None:
    assert duration(text) == expected


@pytest.mark.parametrize("text", ["", "P", "PT", "P1DT", "1h", "P1M", "P1Y", "-PT1H", "PT1H2H", "P99999999999999D"])
def test_duration_that_cannot_be_read_is_told_with_an_example(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="must be a duration of ISO 8601"):
        duration(text)


@pytest.mark.parametrize("text", ["-1", "x", "", "1.5", str(2**63)])
def test_offset_that_cannot_be_is_told(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="must be an offset: a whole number of at least 0"):
        offset(text)
