from __future__ import annotations

import copy
import json
import pickle
from functools import partial
from pathlib import Path

import attrs
import pytest

from sarameya import Config, ConfigError, Secret
from sarameya.option_kinds import secret
from sarameya.secret import looks_secret, masked, masked_text
from sarameya.service.app.app_file import AppFileError, load_app

CANARY = "kAnarienv0gel"


@attrs.frozen
class Options:
    """Options with a secret, like a Config."""

    word: Secret | None = secret("what opens it")


# -- texts of a secret ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "show",
    [
        repr,
        str,
        ascii,
        "{}".format,
        "{!r:>40}".format,
        "{:>20}".format,
        lambda one: f"{one:s}",
        lambda one: f"{one=}",
        lambda one: "%s %r" % (one, [one]),  # noqa: UP031
        lambda one: str({"password": one}),
        lambda one: repr(Options(word=one)),
        lambda one: repr(attrs.asdict(Options(word=one))),
        lambda one: str(ConfigError("anything", one, "must be something else")),
        lambda one: repr(dir(one)),
    ],
)
def test_secret_is_not_shown(show: object) -> None:
    assert callable(show)
    shown = show(Secret(CANARY))
    assert CANARY not in shown
    assert "***" in shown or "reveal" in shown


def test_secret_is_revealed_by_reveal() -> None:
    assert Secret(CANARY).reveal() == CANARY


def test_invalid_secret_is_refused_without_being_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORD", f"{CANARY}\udcff")
    for given in ("env:WORD", f"{CANARY}\udcff"):
        with pytest.raises(ConfigError, match=r"^word = \*\*\*: must be text: .* not UTF-8$"):
            Options(word=given)  # type: ignore[arg-type]


def test_option_that_is_not_valid_text_is_refused_by_its_name() -> None:
    with pytest.raises(ConfigError, match=r"^sasl_username = 'al\\udcffice': must be text"):
        Config(security_protocol="SASL_SSL", sasl_mechanism="PLAIN", sasl_username="al\udcffice", sasl_password="x")


def test_function_with_secrets_bound_to_it_is_not_shown() -> None:
    options = {"security_protocol": "SASL_SSL", "sasl_mechanism": "OAUTHBEARER"}
    bound = Config(sasl_token=partial(_give, client_secret=CANARY), **options)  # type: ignore[arg-type]
    assert "sasl_token=<functools.partial>" in repr(bound)
    assert CANARY not in repr(bound)
    assert "sasl_token=<tests.test_secret._give>" in repr(Config(sasl_token=_give, **options))  # type: ignore[arg-type]
    assert "sasl_token=None" in repr(Config())


def _give(client_secret: str = "") -> str:
    return client_secret


def test_secret_cannot_be_json_and_has_no_attributes() -> None:
    with pytest.raises(TypeError):
        json.dumps(Secret(CANARY))
    with pytest.raises(TypeError):
        vars(Secret(CANARY))


def test_secrets_with_equal_values_are_equal() -> None:
    assert Secret("größe") == Secret("größe") != Secret("grösse")
    assert Secret(CANARY) != CANARY
    assert {Secret(CANARY), Secret(CANARY), Secret("another")} == {Secret("another"), Secret(CANARY)}


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))])
def test_copied_or_pickled_secret_is_equal(copied: object) -> None:
    assert callable(copied)
    assert copied(Secret(CANARY)) == Secret(CANARY)


@pytest.mark.parametrize("value", [b"bytes", None, 5, ""])
def test_secret_must_be_a_non_empty_string(value: object) -> None:
    with pytest.raises(ValueError, match="must be a non-empty string"):
        Secret(value)  # type: ignore[arg-type]


# -- sources of a secret ----------------------------------------------------------------------------


def test_text_is_the_secret_itself() -> None:
    assert Secret.of(CANARY) == Secret(CANARY)
    assert Secret.of("environment:x") == Secret("environment:x")


def test_secret_is_read_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_WORD", CANARY)
    assert Secret.of("env:SOME_WORD") == Secret(CANARY)


@pytest.mark.parametrize("ending", ["", "\n", "\r\n"])
def test_secret_is_read_from_a_file_without_the_last_line_break(tmp_path: Path, ending: str) -> None:
    (tmp_path / "word").write_bytes(f" {CANARY}\nü {ending}".encode())
    assert Secret.of(f"file:{tmp_path}/word") == Secret(f" {CANARY}\nü ")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("env:NO_SUCH_WORD", "the environment variable NO_SUCH_WORD is not set"),
        ("env:EMPTY_WORD", "the environment variable EMPTY_WORD is empty"),
        ("env:", "must name an environment variable after 'env:'"),
        ("file:", "must name a file after 'file:'"),
        ("file:{tmp}/none", "the file {tmp}/none cannot be read: No such file or directory"),
        ("file:{tmp}", "the file {tmp} cannot be read: Is a directory"),
        ("file:{tmp}/empty", "the file {tmp}/empty is empty"),
        ("file:{tmp}/latin", "the file {tmp}/latin is not UTF-8 text"),
    ],
)
def test_unreadable_secret_is_reported_without_its_content(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, problem: str
) -> None:
    monkeypatch.setenv("EMPTY_WORD", "")
    monkeypatch.delenv("NO_SUCH_WORD", raising=False)
    (tmp_path / "empty").write_text("\n")
    (tmp_path / "latin").write_bytes(CANARY.encode() + b"\xff")
    with pytest.raises(ValueError, match=r"file|environment") as caught:
        Secret.of(text.format(tmp=tmp_path))
    assert str(caught.value) == problem.format(tmp=tmp_path)
    assert CANARY not in repr(caught.value)
    assert caught.value.__cause__ is None


def test_option_accepts_a_secret_or_its_source(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_WORD", CANARY)
    assert Options().word is None
    assert (
        Options(word="env:SOME_WORD").word
        == Options(word=CANARY).word
        == Options(word=Secret(CANARY)).word
        == Secret(CANARY)
    )
    assert pickle.loads(pickle.dumps(Options(word=CANARY))) == Options(word=CANARY)


@pytest.mark.parametrize("value", ["env:NO_SUCH_WORD", 12345678, [CANARY], ""])
def test_option_refuses_an_invalid_secret_without_showing_it(value: object) -> None:
    with pytest.raises(ConfigError) as caught:
        Options(word=value)
    assert str(caught.value).startswith("word = ***: ")
    assert "12345678" not in repr(caught.value)
    assert CANARY not in repr(caught.value)


# -- names and texts that look secret ---------------------------------------------------------------

LOOK_SECRET = [
    "sasl_password",
    "ssl.key.password",
    "ssl.keystore.key",
    "sasl.pasword",
    "sasl_passwrod",
    "SARAMEYA_CONFIG_SASL_PASSWORD",
    "sasl.jaas.config",
    "sasl.oauthbearer.client.credentials.client.secret",
    "sasl.oauthbearer.assertion.private.key.passphrase",
    "basic.auth.user.info",
    "handler.options.registry.basicAuthUserInfo",
    "handler.options.conf.spark.hadoop.fs.s3a.access.key",
    "handler.options.conf.spark.hadoop.fs.azure.account.key.store.dfs.core.windows.net",
    "apiKey",
    "tls_key",
    "bearer_token",
    "tokn",
    "db_pwd",
    "config.sasl_pass",
    "http.authorization",
    "proxyAuthorization",
    "session_cookie",
    "fs.azure.sas.lake.account.blob.core.windows.net",
    "sasKey",
    "connection_string",
    "eventhubs.connectionString",
    "connectionStrings",
    "registry.auth",
    "auth",
]
LOOK_OPEN = [
    "session_timeout",
    "client_id",
    "key.deserializer",
    "key_format",
    "ssl.keystore.location",
    "tls_key_file",
    "SARAMEYA_CONFIG_SASL_PASSWORD_FILE",
    "sasl.oauthbearer.token.endpoint.url",
    "monkey",
    "bypass",
    "compass",
    "max.request.size",
    "sasl.kerberos.kinit.cmd",
    "sasl_mechanism",
    "author",
    "authors",
    "authenticate",
    "spark.authenticate.enabled",
    "auth_type",
    "sasquatch",
    "connection_timeout",
    "strings",
]


@pytest.mark.parametrize("name", LOOK_SECRET)
def test_value_under_a_name_that_looks_secret_is_masked(name: str) -> None:
    assert looks_secret(name)
    error = ConfigError(name, CANARY, "no such option")
    assert str(error) == f"{name} = ***: no such option"
    assert CANARY not in repr(error)
    assert str(pickle.loads(pickle.dumps(error))) == str(error)


@pytest.mark.parametrize("name", LOOK_OPEN)
def test_value_under_another_name_is_shown(name: str) -> None:
    assert not looks_secret(name)
    assert str(ConfigError(name, "value", "no such option")) == f"{name} = 'value': no such option"


@pytest.mark.parametrize(
    "name",
    [
        *("bootstrap_servers", "bootstrap.servers", "bootstrap_server", "bootstrap.servrs", "bootsrap_servers"),
        *("brokers", "servers", "metadata.broker.list", "handler.options.dead_letters.bootstrap_servers"),
        *("config.bootstrap_servrs", "handler.options.bootstrap.servrs"),
    ],
)
def test_text_before_the_last_at_of_an_address_is_masked(name: str) -> None:
    text = "user:s3,cr@et,@host:1,b:2"
    assert masked(name, text) == "***@host:1,b:2"
    assert repr(masked(name, text.split(","))) == "[***, ***, '***@host:1', 'b:2']"
    assert repr(masked(name, tuple(text.split(",")))) == "(***, ***, '***@host:1', 'b:2')"
    assert masked(name, {"a": text}) == {"a": "***@host:1,b:2"}
    assert masked(name, "a:1,b:2") == "a:1,b:2"
    assert masked(name, ["a:1", 2]) == ["a:1", 2]
    assert repr(masked(name, [{"host": "h", "password": "s"}])) == "[{'host': 'h', 'password': ***}]"


def test_secrets_within_a_value_are_masked() -> None:
    value = {
        "user": "me",
        "password": CANARY,
        "nested": [{"token": CANARY, "n": 1}],
        "keys": ({"api_key": [CANARY]},),
    }
    assert repr(masked("handler", value)) == (
        "{'user': 'me', 'password': ***, 'nested': [{'token': ***, 'n': 1}], 'keys': ({'api_key': ***},)}"
    )


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (f"https://me:{CANARY}@registry:8081/", "https://me:***@registry:8081/"),
        (f"https://{CANARY}@registry/", "https://***@registry/"),
        (f"sc://host:15002/;user_id=me;token={CANARY};x=y", "sc://host:15002/;user_id=me;token=***;x=y"),
        (f"jdbc:db://h/d?user=me&password={CANARY}&ssl=true", "jdbc:db://h/d?user=me&password=***&ssl=true"),
        (
            f'...LoginModule required username="me" password="{CANARY} a";',
            '...LoginModule required username="me" password=***;',
        ),
        (rf'username="me" password="a\"{CANARY}" x="y"', 'username="me" password=*** x="y"'),
        (
            f"DefaultEndpointsProtocol=https;AccountName=lake;AccountKey={CANARY}+/==;EndpointSuffix=core.windows.net",
            "DefaultEndpointsProtocol=https;AccountName=lake;AccountKey=***;EndpointSuffix=core.windows.net",
        ),
        (
            f"Endpoint=sb://hub/;SharedAccessKeyName=Root;SharedAccessKey={CANARY}=;EntityPath=e",
            "Endpoint=sb://hub/;SharedAccessKeyName=Root;SharedAccessKey=***;EntityPath=e",
        ),
        (f"https://lake/x?sv=2022&sig={CANARY}%3D&se=2027", "https://lake/x?sv=2022&sig=***&se=2027"),
        (f"https://s3/x?X-Amz-Signature={CANARY}&a=b", "https://s3/x?X-Amz-Signature=***&a=b"),
        (f"GET /v1?api_key={CANARY}&q=1", "GET /v1?api_key=***&q=1"),
        (f"GET /v1?apiKey={CANARY}", "GET /v1?apiKey=***"),
        (f"refused: Bearer {CANARY}.x-y_z, sorry", "refused: Bearer ***, sorry"),
        (f"{{'Authorization': 'Basic {CANARY}=='}}", "{'Authorization': 'Basic ***'}"),
        ("Authorization: Bearer short", "Authorization: Bearer ***"),
        (f"https://me:a/{CANARY}@b/c@registry:8081/", "https://me:***@registry:8081/"),
        (
            f"https://me:{CANARY}/@registry, https://you:{CANARY}@there",
            "https://me:***@registry, https://you:***@there",
        ),
        (f"https://me:{CANARY}@here,https://you:{CANARY}@there", "https://me:***@here,https://you:***@there"),
        (f"https://{CANARY}@x@registry/", "https://***@registry/"),
        ("orders@example", "orders@example"),
        ("localhost:9092", "localhost:9092"),
    ],
)
def test_secrets_within_a_text_are_masked(text: str, shown: str) -> None:
    assert masked("url", text) == shown
    assert masked_text(text) == shown


@pytest.mark.parametrize(
    "text",
    [
        "http://registry:8081/subjects/orders@v2 has none",
        "https://lake.example/a/b@c",
        "Bearer authentication is needed, not a bearer token: see Bearer tokens",
        "authorization: denied by the broker",
        "the design=of it, sig nothing, config=x, key=orders-0, keys=3, primary_key=id, partition_key=day",
        "SharedAccessKeyName=Root",
        pytest.param("a" * 200_000 + " " + "token" * 20_000, id="long"),
        "b/10:9092, a:1: connection refused; mailto a@b",
    ],
)
def test_text_without_a_secret_is_shown_unchanged(text: str) -> None:
    assert masked_text(text) == text


@pytest.mark.parametrize("value", [True, False, None])
def test_boolean_is_never_a_secret(value: object) -> None:
    assert masked("use_password", value) is value


def test_errors_of_an_app_file_mask_secrets(tmp_path: Path) -> None:
    path = tmp_path / "app.toml"
    path.write_text(
        'bootstrap_servers = ["a:1"]\ngroup = "g"\ntopics = ["t"]\n'
        f'config.sasl_pasword = "{CANARY}"\nhandler = {{ name = "print", pasword = "{CANARY}" }}\n'
        f'service = {{ workers = {{ token = "{CANARY}" }} }}\nsecret = "{CANARY}"\n'
    )
    with pytest.raises(AppFileError) as caught:
        load_app(path)
    assert len(caught.value.problems) == 4
    assert CANARY not in str(caught.value) + repr(caught.value)
