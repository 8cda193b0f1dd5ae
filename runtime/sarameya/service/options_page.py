"""The reference of all options as a Markdown page: docs/configuration.md, drawn from what the code checks. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, get_args, get_type_hints

import attrs

from sarameya.config import Config, TopicConfig
from sarameya.config.kafka_names import ALWAYS, MEANINGLESS, UNSUPPORTED
from sarameya.errors import ConfigError
from sarameya.service.app_file import ServiceSection
from sarameya.service.effective import shown

COMMAND = "sarameya config docs"

_HEAD = f"""<!-- Written by `{COMMAND}`; `make configuration` writes it anew. -->

# Configuration

`Config(...)` in Python, `[config]` in an app file, Kafka's own names in a `.properties` file. Durations are seconds,
sizes are bytes, unless Kafka's name is used: then they are what Kafka has. What a value may not be is refused when it
is given, by option, value and what is allowed.

A value is what the command line says (`-o`, `--bootstrap` and the like), else
[the environment](#environment-variables), else the app file, else the [`.properties` file](#kafkas-own-names)
(`--properties`, or the one that the app file names), else the default:

    sarameya config show app.toml          # every value with its origin; --json for programs

What is a secret, or looks like one by its name, is shown as `***`, there and in errors about it. An option that is a
`Secret` is given as `env:NAME` (an environment variable), `file:PATH` (a file) or as text; in Python also as
`Secret("text")`.

## Options

"""

_ENVIRONMENT = """
## Environment variables

Arguments go before them, and they before the app file and a `.properties` file. Commands that ask a cluster (`groups`,
`topics`, `verify`, `rewind`, `dashboard`) take of them where it is, the group, and what is under `config`. Texts
are taken as they are, lists are separated by commas, and anything else is as TOML has it (`12.5`, `true`,
`{ max_rows = 5 }`).

Where `--properties FILE` stands on the command line, a variable that contradicts what that file says is refused, if it
is about the cluster (no broker that both name), the group (where the command needs it), or security
(`security_protocol`, `sasl_*`, `tls_*`): whoever calls the command may not know of it. An argument that says which is
meant decides. What the file leaves open may be said by variables.

| variable | key of the app file |
|---|---|
| `SARAMEYA_BOOTSTRAP_SERVERS`, `SARAMEYA_GROUP`, `SARAMEYA_TOPICS`, `SARAMEYA_TOPICS_PATTERN` | those |
| `SARAMEYA_PROPERTIES` | `properties` |
| `SARAMEYA_CONFIG_SESSION_TIMEOUT`, and so each option | `config.session_timeout` |
| `SARAMEYA_SERVICE_WORKERS`, and so each key of `[service]` | `service.workers` |
| `SARAMEYA_HANDLER_NAME` | `handler.name` |
| `SARAMEYA_HANDLER_OPTIONS_TABLE`, and so each option of the handler | `handler.options.table` |

With `_FILE` behind its name a variable names the file that has the value, as secrets are handed to containers:
`SARAMEYA_HANDLER_OPTIONS_TOKEN_FILE=/run/secrets/token`. A variable that begins so and means nothing is refused, but
for those that Kubernetes sets for a service (`SARAMEYA_SERVICE_HOST`, `SARAMEYA_PORT` and their like).
"""

_KAFKA = """
## Kafka's own names

```python
from sarameya import ClientProperties, Config

config = Config.from_properties({"session.timeout.ms": "6000", "auto.offset.reset": "earliest"})
client = ClientProperties.read("client.properties")  # .config, .bootstrap_servers, .group_id
```

Names that are options stand with them above; `bootstrap.servers` and `group.id` are `ClientProperties`' own. Any other
is refused, all of them at once, with the reason (`PropertiesError`): none is ignored. `auto.offset.reset` is
`offset_initial` alone: a position that is no longer in the log meets `offset_out_of_range`, which fails unless it is
told otherwise. Java's largest number, as a duration, is the longest that there is here. `sasl.jaas.config`, of a
PlainLoginModule or a ScramLoginModule, is `sasl_username` and `sasl_password`.

An app file names such a file with `properties = "client.properties"`, which stands beside it: what the app file itself
says goes before.

What is always so may be said:

"""


def page() -> str:
    """The whole of it."""
    return "".join(
        (
            _HEAD,
            _table(
                ("option", "default", "allowed", "Kafka's name", ""), (_option(field) for field in attrs.fields(Config))
            ),
            "\nUnder `[config.topics.NAME]` (`TopicConfig`), for one topic:\n\n",
            _table(("option", ""), ((f"`{f.name}`", f.metadata["doc"]) for f in attrs.fields(TopicConfig))),
            "\n## The service\n\n`[service]` in an app file.\n\n",
            _table(("key", "default", "allowed"), (_service_key(field) for field in attrs.fields(ServiceSection))),
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
        _allowed(field.name),
        f"`{kafka}`" if kafka else "",
        field.metadata["doc"],
    )


def _allowed(option: str) -> str:
    """What the option itself says where it is given what nothing allows."""
    try:
        Config.from_mapping({option: object()})
    except ConfigError as error:
        return error.allowed.removeprefix("must be ")
    raise AssertionError(f"{option} takes anything")


def _service_key(field: attrs.Attribute[Any]) -> tuple[str, ...]:
    _, rule = get_args(get_type_hints(ServiceSection, include_extras=True)[field.name])
    return f"`{field.name}`", _default(field.default), rule.allowed.removeprefix("must be ")


def _default(value: Any) -> str:
    if value is None or value == {}:
        return "none"
    text = f"`{json.dumps(shown(value))}`"
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
