from __future__ import annotations

import tomllib
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sarameya.service.app.app_file import load_app
from sarameya.service.app.argument_app import load_arguments
from sarameya.service.app.environment import Variable
from sarameya.service.app.toml_writer import as_app_file, toml

_TEXT = st.text(st.characters(exclude_categories=["Cs"]))
_SCALARS = st.one_of(
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False),
    _TEXT,
    st.just(datetime(2026, 1, 2, 3, tzinfo=UTC)),
)
_VALUES = st.recursive(
    _SCALARS, lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(_TEXT, inner, max_size=3))
)


@given(st.dictionaries(_TEXT, _VALUES, max_size=4))
def test_written_toml_is_read_back_unchanged(table: dict[str, Any]) -> None:
    assert tomllib.loads(toml(table)) == table


GIVEN = [
    Variable("land", "handler.name", "print"),
    Variable("--bootstrap", "bootstrap_servers", ["here:9092"]),
    Variable("--group", "group", "g"),
    Variable("--topic", "topics", ["orders"]),
    Variable("--set", "handler.options.spark.conf", {"spark.jars": 'a"b.jar'}),
]


def test_written_file_gives_the_same_app_as_the_arguments(tmp_path: Path) -> None:
    (tmp_path / "client.properties").write_text("client.id = theirs\n")
    arguments = [*GIVEN, Variable("--properties", "properties", str(tmp_path / "client.properties"))]
    loaded = load_arguments(
        "land", arguments, {"config.offset_initial": "oldest"}, {}, {"SARAMEYA_SERVICE_WORKERS": "3"}
    )
    path = tmp_path / "app.toml"
    path.write_text(as_app_file(loaded))
    assert load_app(path, {}) == loaded.app
    assert "theirs" not in path.read_text(), "the properties file already has it"


def test_secrets_become_comments_but_references_are_kept() -> None:
    arguments = [
        *GIVEN,
        Variable("-o", "config.security_protocol", "SASL_SSL"),
        Variable("-o", "config.sasl_mechanism", "PLAIN"),
        Variable("-o", "config.sasl_username", "ann"),
        Variable("-o", "config.sasl_password", "env:HOME"),
        Variable("--set", "handler.options.registry.password", "hunter2"),
        Variable("--set", "handler.options.registry.url", "https://ann:hunter2@here"),
    ]
    text = as_app_file(load_arguments("land", arguments, {}, {}, {"SARAMEYA_HANDLER_OPTIONS_TOKEN": "hunter2"}))
    assert "hunter2" not in text
    assert 'sasl_password = "env:HOME"' in text
    assert text.splitlines()[:3] == [
        "# handler.options.token is not written here: it is a secret from SARAMEYA_HANDLER_OPTIONS_TOKEN",
        "# handler.options.registry.password is not written here: it is a secret from --set",
        "# handler.options.registry.url is not written here: it is a secret from --set",
    ]


def test_key_under_a_secret_name_is_secret() -> None:
    arguments = [
        *GIVEN,
        Variable("--set", "handler.options.password", {"of_mine": "hunter2"}),
        Variable("--set", "handler.options.conf", {"spark.hadoop.fs.s3a.access": {"key": "hunter2"}}),
    ]
    text = as_app_file(load_arguments("land", arguments, {}, {}, {}))
    assert "hunter2" not in text
    assert text.splitlines()[:2] == [
        "# handler.options.password.of_mine is not written here: it is a secret from --set",
        "# handler.options.conf.spark.hadoop.fs.s3a.access.key is not written here: it is a secret from --set",
    ]


def test_properties_are_found_from_any_place_of_the_app_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "client.properties").write_text("client.id = theirs\n")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    loaded = load_arguments("land", [*GIVEN, Variable("--properties", "properties", "client.properties")], {}, {}, {})
    path = tmp_path / "elsewhere" / "app.toml"
    path.write_text(as_app_file(loaded))
    assert load_app(path, {}).config.client_id == "theirs"
