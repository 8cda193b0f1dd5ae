"""The reference of all options as a Markdown page: docs/configuration.md, generated from the code's checks. Pure."""

from __future__ import annotations

import ast
import inspect
import json
from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import Any, get_args, get_type_hints

import attrs

from sarameya.config import Config, TopicConfig
from sarameya.config.kafka_names import ALWAYS, MEANINGLESS, UNSUPPORTED
from sarameya.errors import ConfigError
from sarameya.service.app.app_file import ServiceSection
from sarameya.service.cli.effective_config import json_value

COMMAND = "sarameya config docs"

_HEAD = f"""<!-- Written by `{COMMAND}`; run `make configuration` after a change. -->

# Configuration

Options are given by `Config(...)` in Python, `[config]` in an app file, or Kafka's own names in a `.properties` file.
Durations are seconds and sizes are bytes; under Kafka's names they have Kafka's units. A value that is not allowed is
refused at the start, with the option, the value and what is allowed.

The first of these that gives a value wins:

1. the command line (`-o`, `--bootstrap` and the like),
2. [the environment](#environment-variables),
3. the app file,
4. the [`.properties` file](#kafkas-own-names): `--properties`, or the one that the app file names,
5. the default.

`sarameya config show` prints every value with its origin (`--json` for programs):

    sarameya config show app.toml

Secrets, and values that look like secrets by their names, are shown as `***`, there and in error messages. Give a
`Secret` as `env:NAME` (an environment variable), as `file:PATH` (a file), or as text; in Python also as
`Secret("text")`.

## Options

"""

_ENVIRONMENT = """
## Environment variables

Variables override the app file and a `.properties` file; arguments override variables. Commands that use a cluster
(`groups`, `topics`, `verify`, `rewind`, `dashboard`) read only the variables for the cluster, the group, and `config`.
Strings are taken as they are, commas separate the values of a list, and anything else is written as in TOML (`12.5`,
`true`, `{ max_rows = 5 }`).

With `--properties FILE` on the command line, a variable that contradicts the file is refused if it is about the cluster
(no common broker), the group (if the command needs one), or security (`security_protocol`, `sasl_*`, `tls_*`): the
caller may not know of the variable. An argument that gives the value resolves the contradiction. Variables may give
values that the file does not have.

| variable | key of the app file |
|---|---|
| `SARAMEYA_BOOTSTRAP_SERVERS`, `SARAMEYA_GROUP`, `SARAMEYA_TOPICS`, `SARAMEYA_TOPICS_PATTERN` | the same |
| `SARAMEYA_PROPERTIES` | `properties` |
| `SARAMEYA_CONFIG_SESSION_TIMEOUT`, and likewise each option | `config.session_timeout` |
| `SARAMEYA_SERVICE_WORKERS`, and likewise each key of `[service]` | `service.workers` |
| `SARAMEYA_HANDLER_NAME` | `handler.name` |
| `SARAMEYA_HANDLER_OPTIONS_TABLE`, and likewise each option of the handler | `handler.options.table` |

A variable whose name ends in `_FILE` names a file that has the value, which is how containers get their secrets:
`SARAMEYA_HANDLER_OPTIONS_TOKEN_FILE=/run/secrets/token`. Unknown variables with the prefix `SARAMEYA_` are refused,
except those that Kubernetes sets for a service, such as `SARAMEYA_SERVICE_HOST` and `SARAMEYA_PORT`.
"""

_KAFKA = """
## Kafka's own names

```python
from sarameya import ClientProperties, Config

config = Config.from_properties({"session.timeout.ms": "6000", "auto.offset.reset": "earliest"})
client = ClientProperties.read("client.properties")  # .config, .bootstrap_servers, .group_id
```

The table above has Kafka's name of each option; `bootstrap.servers` and `group.id` belong to `ClientProperties`. All
other names are refused together, each with its reason (`PropertiesError`): none is ignored. `auto.offset.reset` sets
only `offset_initial`. `offset_out_of_range` is for a position that the log no longer has: by default, the claim fails.
Java's largest number, as a duration, means the longest duration allowed here. `sasl.jaas.config` of a PlainLoginModule
or a ScramLoginModule sets `sasl_username` and `sasl_password`.

An app file names such a file with `properties = "client.properties"`, relative to its own folder. The app file's own
values win.

Properties with a fixed value here may be given with that value:

"""


def page() -> str:
    """Return the page."""
    return "".join(
        (
            _HEAD,
            _table(
                ("option", "default", "meaning", "allowed", "Kafka's name"),
                (_option(field) for field in attrs.fields(Config)),
            ),
            "\nUnder `[config.topics.NAME]` (`TopicConfig`), for one topic:\n\n",
            _table(("option", ""), ((f"`{f.name}`", f.metadata["doc"]) for f in attrs.fields(TopicConfig))),
            "\n## The service\n\n`[service]` in an app file.\n\n",
            _table(("key", "default", "meaning", "allowed"), _service_keys()),
            _ENVIRONMENT,
            _KAFKA,
            _table(("property", "values", ""), (_always(name) for name in ALWAYS)),
            "\nNot supported:\n\n",
            _table(("properties", ""), _by_reason(UNSUPPORTED)),
            "\nWithout meaning here:\n\n",
            _table(("properties", ""), _by_reason(MEANINGLESS)),
        )
    )


def _table(header: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    cells = [list(header)]
    lines = [cells[0], ["---"] * len(cells[0]), *rows]
    return "".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |\n" for line in lines)


def _option(field: attrs.Attribute[Any]) -> tuple[str, ...]:
    kafka = field.metadata["kafka"]
    return (
        f"`{field.name}`",
        _default(getattr(Config(), field.name)),
        field.metadata["doc"],
        _allowed(field.name),
        f"`{kafka}`" if kafka else "",
    )


def _allowed(option: str) -> str:
    """Return the text about the allowed values: from the option's error for a value that no option allows."""
    try:
        Config.from_mapping({option: object()})
    except ConfigError as error:
        return error.allowed.removeprefix("must be ")
    raise AssertionError(f"{option} allows any value")


def _service_keys() -> Iterable[tuple[str, ...]]:
    kinds, docs = get_type_hints(ServiceSection, include_extras=True), _attribute_docs(ServiceSection)
    for field in attrs.fields(ServiceSection):
        _, rule = get_args(kinds[field.name])
        yield f"`{field.name}`", _default(field.default), docs[field.name], rule.allowed.removeprefix("must be ")


def _attribute_docs(kind: type) -> dict[str, str]:
    """Return the docstrings of a class's attributes, each as one line. Python keeps them only in the source."""
    [definition] = ast.parse(inspect.getsource(kind)).body
    assert isinstance(definition, ast.ClassDef)
    docs: dict[str, str] = {}
    for before, statement in pairwise(definition.body):
        match before, statement:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                docs[name] = " ".join(text.split())
    return docs


def _default(value: Any) -> str:
    if value is None or value == {}:
        return "none"
    text = f"`{json.dumps(json_value(value))}`"
    return f"{text} ({_binary(value)})" if type(value) is int and value % 1024 == 0 and value else text


def _binary(size: int) -> str:
    return f"{size // 2**20} MiB" if size % 2**20 == 0 else f"{size // 2**10} KiB"


def _always(name: str) -> tuple[str, ...]:
    values, reason = ALWAYS[name]
    return f"`{name}`", ", ".join(f"`{value}`" for value in sorted(values)), reason


def _by_reason(names: Mapping[str, str]) -> Iterable[tuple[str, str]]:
    reasons = dict.fromkeys(names.values())
    for reason in reasons:
        yield ", ".join(f"`{name}`" for name, why in names.items() if why == reason), reason
