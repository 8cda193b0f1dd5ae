from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import pytest

from sarameya.service.app.app_file import AppFileError
from sarameya.service.app.cluster_arguments import add_cluster_arguments, cluster, names_cluster

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
    return cluster(parsed(*argv))


def parsed(*argv: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="sarameya ask", exit_on_error=False)
    add_cluster_arguments(parser)
    parser.set_defaults(usage_error=lambda message: pytest.fail(message))
    return parser.parse_args(argv)


@pytest.fixture
def app_file(tmp_path: Path) -> str:
    path = tmp_path / "app.toml"
    path.write_text(APP)
    return str(path)


def test_servers_are_a_list_of_addresses() -> None:
    place = read("--bootstrap-servers", "a:9092, [::1]:9093")
    assert (place.bootstrap_servers, place.group) == (("a:9092", "[::1]:9093"), None)


@pytest.mark.parametrize("name", ["--bootstrap", "--bootstrap-servers"])
def test_option_for_servers_has_a_short_and_a_long_name(name: str) -> None:
    assert read(name, "a:9092").bootstrap_servers == ("a:9092",)


@pytest.fixture
def properties(tmp_path: Path) -> str:
    path = tmp_path / "client.properties"
    path.write_text("bootstrap.servers=p:1,q:2\ngroup.id=of-the-properties\nclient.id=theirs\nsasl.mechanism=PLAIN\n")
    return str(path)


SECURED = ["-o", "security_protocol=SASL_PLAINTEXT", "-o", "sasl_username=ann", "-o", "sasl_password=env:HOME"]


def test_properties_fill_in_missing_options(properties: str) -> None:
    place = read("--properties", properties, *SECURED)
    assert (place.bootstrap_servers, place.group) == (("p:1", "q:2"), "of-the-properties")
    assert (place.config.client_id, place.config.sasl_username) == ("theirs", "ann")
    assert read("--properties", properties, "--bootstrap", "mine:1", *SECURED).bootstrap_servers == ("mine:1",)


OAUTH = ["-o", "security_protocol=SASL_SSL", "-o", "sasl_mechanism=OAUTHBEARER", "-o", "sasl_token=of_groups:token"]


@pytest.mark.parametrize("source", ["--properties", "--app", None])
def test_token_function_is_imported_by_its_name(
    source: str | None, app_file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "of_groups.py").write_text("def token(): ...\n")
    (tmp_path / "client.properties").write_text("client.id = theirs\n")
    monkeypatch.syspath_prepend(tmp_path)
    files = {"--properties": str(tmp_path / "client.properties"), "--app": app_file}
    place = read("--bootstrap", "a:1", *([source, files[source]] if source else []), *OAUTH)
    assert place.config.sasl_token is not None
    assert place.config.sasl_token.__module__ == "of_groups"
    with pytest.raises(AppFileError, match=r"config.sasl_token = .*: module 'of_groups' has no 'tokn'.* \(by -o\)"):
        read("--bootstrap", "a:1", *OAUTH[:-1], "sasl_token=of_groups:tokn")


def problems(*argv: str) -> list[str]:
    """Return the problems that are reported."""
    with pytest.raises(AppFileError) as caught:
        read(*argv)
    return [problem.removeprefix("sarameya ask: ") for problem in caught.value.problems]


def test_invalid_properties_are_reported_with_their_file(properties: str) -> None:
    (reported,) = problems("--properties", properties)
    assert reported.startswith("config.sasl_mechanism = 'PLAIN': requires security_protocol = ")
    assert reported.endswith(f"(by {properties})")
    Path(properties).write_text("bootstrap.servers = kafka\n")
    assert problems("--properties", properties) == [
        f"bootstrap_servers = ['kafka']: must be a non-empty list of 'host:port' strings (by {properties})"
    ]
    Path(properties).write_text("nope = 1\n")
    assert problems("--properties", properties) == [f"{properties}: nope = '1': is not a property of Kafka's clients"]
    Path(properties).write_text("client.id = x\n")
    (reported,) = problems("--properties", properties)
    assert reported.startswith("bootstrap_servers is missing: give --bootstrap HOST:PORT")


# -- the environment -----------------------------------------------------------------------------


def test_environment_overrides_properties_but_not_arguments(properties: str, monkeypatch: pytest.MonkeyPatch) -> None:
    Path(properties).write_text("bootstrap.servers=p:1\ngroup.id=theirs\nclient.id=theirs\nclient.rack=r\n")
    monkeypatch.setenv("SARAMEYA_PROPERTIES", properties)
    assert names_cluster(parsed())
    assert read().bootstrap_servers == ("p:1",)
    monkeypatch.setenv("SARAMEYA_BOOTSTRAP_SERVERS", "e:1,e:2")
    monkeypatch.setenv("SARAMEYA_GROUP", "of-the-environment")
    monkeypatch.setenv("SARAMEYA_CONFIG_CLIENT_ID", "environment")
    monkeypatch.setenv("SARAMEYA_CONFIG_RETRY_BACKOFF", "0.5")
    place = read("-o", "retry_backoff=0.25")
    assert (place.bootstrap_servers, place.group) == (("e:1", "e:2"), "of-the-environment")
    assert (place.config.client_id, place.config.rack_id, place.config.retry_backoff) == ("environment", "r", 0.25)
    assert read("--bootstrap", "mine:1").bootstrap_servers == ("mine:1",)


def test_app_variables_are_ignored_by_cluster_commands(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not names_cluster(parsed())
    for name, value in {"TOPICS": "orders", "HANDLER_NAME": "print", "SERVICE_WORKERS": "3"}.items():
        monkeypatch.setenv(f"SARAMEYA_{name}", value)
    assert not names_cluster(parsed())
    assert read("--bootstrap", "a:1").bootstrap_servers == ("a:1",)


@pytest.mark.parametrize("argv", [[], ["--bootstrap", "a:1"]])
def test_misspelled_variable_is_refused(argv: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SARAMEYA_BOOTSTRAP_SERVER", "a:1")
    assert names_cluster(parsed())
    (reported,) = problems(*argv)
    assert reported.startswith("SARAMEYA_BOOTSTRAP_SERVER: no such variable; did you mean SARAMEYA_BOOTSTRAP_SERVERS?")


def test_invalid_value_is_reported_with_its_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SARAMEYA_CONFIG_CHECK_CRCS", "perhaps")
    assert problems("--bootstrap", "a:1") == [
        "config.check_crcs = 'perhaps': must be true or false (by SARAMEYA_CONFIG_CHECK_CRCS)"
    ]


@pytest.mark.parametrize("name", ["SARAMEYA_SERVERS", "SARAMEYA_TLS_CA_FILE", "SARAMEYA_CLUSTER", "SARAMEYA_X"])
def test_ambiguous_variable_is_refused(name: str, app_file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, "a:1")
    assert names_cluster(parsed())
    for argv in ([], ["--bootstrap", "a:1"], ["--app", app_file]):
        assert f"{name}: no such variable; " in "".join(problems(*argv))


@pytest.mark.parametrize(
    "environ",
    [
        {"TOPICS": "orders", "TOPICS_PATTERN": "o.*"},
        {"HANDLER_OPTIONS_X_FILE": "/nonexistent"},
        {"HANDLER_OPTION_TABLE": "t", "SERVICE_WORKRS": "1", "TOPICS_": "t"},
        {"SERVICE_HTTP_FILE": "/nonexistent", "SERVICE_WORKERS": "none"},
    ],
)
def test_invalid_app_key_is_ignored_by_cluster_commands(
    environ: dict[str, str], app_file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in environ.items():
        monkeypatch.setenv(f"SARAMEYA_{name}", value)
    assert not names_cluster(parsed())
    assert read("--bootstrap", "a:1").bootstrap_servers == ("a:1",)
    assert read("--app", app_file).bootstrap_servers == ("app:9092",)


@pytest.mark.parametrize("variable", ["SARAMEYA_TOPICS", "SARAMEYA_HANDLER_NAME"])
def test_app_file_needs_only_the_values_of_the_cluster(
    variable: str, app_file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, "which-the-file-leaves-open")
    Path(app_file).write_text('bootstrap_servers = ["app:9092"]\n')
    assert (read("--app", app_file).bootstrap_servers, read("--app", app_file).group) == (("app:9092",), None)
    Path(app_file).write_text('topics = ["x"]\nhandler.name = 5\n')
    (reported,) = problems("--app", app_file)
    assert reported.endswith('bootstrap_servers is missing: add for example bootstrap_servers = ["localhost:9092"]')


def test_unknown_app_key_is_refused_by_cluster_commands(app_file: str) -> None:
    Path(app_file).write_text(f"properties = 5\nconfg.security_protocol = 'SASL_SSL'\n{APP}")
    unknown, properties = sorted(problems("--app", app_file))
    assert unknown.endswith(": no such option; did you mean 'config'?")
    assert properties.endswith(": properties = 5: must be a non-empty string")


@pytest.mark.parametrize(
    ("name", "value"), [("SARAMEYA_GROUP_FILE", "/nonexistent"), ("SARAMEYA_GROUP", "")], ids=["file", "empty"]
)
def test_invalid_group_is_refused_by_commands_that_need_it(
    name: str, value: str, app_file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, value)
    Path(app_file).write_text('bootstrap_servers = ["app:9092"]\n')
    for argv in (["--bootstrap", "a:1"], ["--app", app_file]):
        place = read(*argv)
        with pytest.raises(AppFileError, match=f"{name}: "):
            _ = place.group


@pytest.mark.parametrize(
    ("name", "given"),
    [("BOOTSTRAP_SERVERS_FILE", ["--bootstrap", "a:1"]), ("CONFIG_RACK_ID_FILE", ["-o", "rack_id=r"])],
)
def test_invalid_variable_overridden_by_an_argument_is_ignored(
    name: str, given: list[str], app_file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(f"SARAMEYA_{name}", "/nonexistent")
    assert problems("--app", app_file)
    assert read("--app", app_file, *given)


def test_variable_contradicting_properties_is_refused(properties: str, monkeypatch: pytest.MonkeyPatch) -> None:
    Path(properties).write_text("bootstrap.servers=p:1,p:2\n")
    monkeypatch.setenv("SARAMEYA_BOOTSTRAP_SERVERS", "e:1")
    assert problems("--properties", properties) == [
        f"bootstrap_servers: SARAMEYA_BOOTSTRAP_SERVERS is ['e:1'], but {properties} has ['p:1', 'p:2']: unset the "
        "variable, or give the value by an argument"
    ]
    assert read("--properties", properties, "--bootstrap", "mine:1").bootstrap_servers == ("mine:1",)
    monkeypatch.setenv("SARAMEYA_BOOTSTRAP_SERVERS", "p:2")
    assert read("--properties", properties).bootstrap_servers == ("p:2",), "some brokers of the same cluster"


def test_group_contradicting_properties_is_refused(
    properties: str, app_file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path(properties).write_text("group.id=theirs\n")
    monkeypatch.setenv("SARAMEYA_GROUP", "theirs")
    assert read("--properties", properties, "--bootstrap", "a:1").group == "theirs"
    monkeypatch.setenv("SARAMEYA_GROUP", "of-the-environment")
    for argv in (["--bootstrap", "a:1"], ["--app", app_file]):
        place = read("--properties", properties, *argv)
        with pytest.raises(AppFileError, match=r"group: SARAMEYA_GROUP is 'of-the-env.*', but .* 'theirs': unset"):
            _ = place.group


def test_security_contradicting_properties_is_refused(properties: str, monkeypatch: pytest.MonkeyPatch) -> None:
    Path(properties).write_text(
        "security.protocol=SASL_SSL\nsasl.mechanism=PLAIN\nsasl.jaas.config=org.apache.kafka.common.security.plain."
        'PlainLoginModule required username="ann" password="s3cret";\nclient.id=theirs\n'
    )
    argv = ["--properties", properties, "--bootstrap", "a:1"]
    for name, value in {"CLIENT_ID": "mine", "SASL_PASSWORD": "s3cret", "SECURITY_PROTOCOL": "SASL_SSL"}.items():
        monkeypatch.setenv(f"SARAMEYA_CONFIG_{name}", value)
    assert read(*argv).config.client_id == "mine"
    monkeypatch.setenv("KAFKA_PASSWORD", "s3cret")
    monkeypatch.setenv("SARAMEYA_CONFIG_SASL_PASSWORD", "env:KAFKA_PASSWORD")
    assert read(*argv).config.client_id == "mine"
    monkeypatch.setenv("SARAMEYA_CONFIG_SASL_PASSWORD", "0ther")
    monkeypatch.setenv("SARAMEYA_CONFIG_SECURITY_PROTOCOL", "SASL_PLAINTEXT")
    password, protocol = sorted(problems(*argv))
    assert password.startswith("config.sasl_password: SARAMEYA_CONFIG_SASL_PASSWORD is ***, but ")
    assert protocol.startswith("config.security_protocol: SARAMEYA_CONFIG_SECURITY_PROTOCOL is 'SASL_PLAINTEXT', but ")
    assert read(*argv, "-o", "security_protocol=SASL_SSL", "-o", "sasl_password=s3cret").config.client_id == "mine"


def test_password_in_an_address_is_refused_and_not_shown() -> None:
    for text in ("user:s3cret@host:1", "user@host:1", "a:1,user:s3,cret@host:1"):
        with pytest.raises(argparse.ArgumentError) as caught:
            read("--bootstrap", text)
        assert "must be HOST:PORT without a user or password" in str(caught.value)
        assert "cret" not in str(caught.value)


@pytest.mark.parametrize("text", ["user:s3cret@host:1", "a:1,user:s3,cr@et@host:1", "user:s3,cr,et@host:1,b:1"])
def test_password_in_an_address_is_not_shown(
    text: str, properties: str, app_file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path(properties).write_text(f"bootstrap.servers = {text}\n")
    reported = problems("--properties", properties)
    monkeypatch.setenv("SARAMEYA_BOOTSTRAP_SERVERS", text)
    for argv in ([], ["--app", app_file]):
        reported += problems(*argv)
    assert len(reported) == 3
    for line in reported:
        _, shown = line.split("bootstrap_servers = ")
        assert "'***@host:1'" in shown
        assert ": must be " in shown
        assert not any(part in shown for part in ("user", "s3", "cr", "et@"))


# -- the rest ------------------------------------------------------------------------------------


def test_app_file_overrides_properties_of_another_directory(
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


def test_command_line_precedes_the_app_file(app_file: str) -> None:
    place = read("--app", app_file, "--bootstrap-servers", "mine:1", "-o", "client_id=mine", "-o", "retry_backoff=0.5")
    assert (place.bootstrap_servers, place.config.client_id, place.config.retry_backoff) == (("mine:1",), "mine", 0.5)
    assert place.config.request_timeout == 3.0


def test_timeout_limits_all_other_timeouts(app_file: str) -> None:
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
def test_option_value_that_is_not_toml_is_a_string(option: str, value: str) -> None:
    assert read("--bootstrap-servers", "a:1", "-o", option).config.client_id == value


@pytest.mark.parametrize(
    ("option", "text"),
    [
        ("clientid=x", "config.clientid = 'x': no such option; did you mean 'client_id'?"),
        ("request_timeout=soon", "config.request_timeout = 'soon': must be a number"),
    ],
)
@pytest.mark.parametrize("source", ["--properties", "--app", None])
def test_wrong_option_is_reported_with_what_is_allowed(
    source: str | None, option: str, text: str, app_file: str, tmp_path: Path
) -> None:
    (tmp_path / "client.properties").write_text("client.id = theirs\n")
    files = {"--properties": str(tmp_path / "client.properties"), "--app": app_file}
    (reported,) = problems("--bootstrap", "a:1", *([source, files[source]] if source else []), "-o", option)
    assert text in reported
    assert reported.endswith("(by -o)")


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
def test_wrong_argument_is_reported(argv: list[str], text: str) -> None:
    with pytest.raises(argparse.ArgumentError) as caught:
        read(*argv)
    assert caught.value.message == text
