from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sarameya.service.app.app_file import App, AppFileError
from sarameya.service.app.argument_app import load_arguments
from sarameya.service.app.environment import Variable

REMEDIES = {"bootstrap_servers": "give --bootstrap", "group": "give --group", "topics": "give --topic"}

GIVEN = [
    Variable("land", "handler.name", "print"),
    Variable("--bootstrap", "bootstrap_servers", ["here:9092"]),
    Variable("--group", "group", "g"),
    Variable("--topic", "topics", ["orders"]),
]


def app(*arguments: Any, environ: dict[str, str] | None = None, **defaults: Any) -> App:
    named = {name.replace("__", "."): value for name, value in defaults.items()}
    return load_arguments("sarameya land", [*GIVEN, *arguments], named, REMEDIES, environ or {}).app


def test_arguments_give_an_app() -> None:
    made = app(Variable("-o", "config.client_id", "ops"), Variable("--set", "handler.options.max.rows", 5))
    assert (made.bootstrap_servers, made.group, made.topics) == (("here:9092",), "g", ("orders",))
    assert made.config.client_id == "ops"
    assert made.handler.options == {"max": {"rows": 5}}


def test_arguments_precede_environment_properties_and_defaults(
    tmp_path: Path,
) -> None:
    properties = tmp_path / "client.properties"
    properties.write_text("bootstrap.servers = there:1\nclient.id = theirs\nauto.offset.reset = latest\n")
    made = app(
        Variable("--properties", "properties", str(properties)),
        Variable("-o", "config.session_timeout", 11.0),
        environ={"SARAMEYA_GROUP": "another", "SARAMEYA_CONFIG_SESSION_TIMEOUT": "22", "SARAMEYA_TOPICS_PATTERN": "x"},
        config__offset_initial="oldest",
        config__claim_grace=3.0,
    )
    assert (made.bootstrap_servers, made.group) == (("here:9092",), "g")
    assert (made.topics, made.topics_pattern) == (("orders",), None)
    assert (made.config.session_timeout, made.config.client_id) == (11.0, "theirs")
    assert (made.config.offset_initial, made.config.claim_grace) == ("newest", 3.0)


def test_missing_value_is_reported_with_its_argument() -> None:
    with pytest.raises(AppFileError) as raised:
        load_arguments("sarameya land", [Variable("land", "handler.name", "print")], {}, REMEDIES, {})
    assert sorted(raised.value.problems) == [
        "sarameya land: bootstrap_servers is missing: give --bootstrap",
        "sarameya land: group is missing: give --group",
        "sarameya land: topics is missing: give --topic",
    ]


def test_mistake_is_reported_with_its_source() -> None:
    with pytest.raises(AppFileError) as raised:
        app(Variable("-o", "config.session_timeout", "long"), environ={"SARAMEYA_SERVICE_WORKERS": "0"})
    assert raised.value.problems == (
        "sarameya land: config.session_timeout = 'long': must be a number above 0 and at most 2147483 (by -o)",
        "sarameya land: service.workers = 0: must be a whole number of at least 1 (by SARAMEYA_SERVICE_WORKERS)",
    )
