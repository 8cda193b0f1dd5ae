"""An app without a file: what a command's arguments say, with the environment and a `.properties` file beneath them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sarameya.service.app_file import Loaded, environment, structured
from sarameya.service.environment import Variable
from sarameya.service.layers import layered, put


def argument(name: str, key: str, value: Any) -> Variable:
    """That the argument called `name` says this of a key of an app file."""
    return Variable(name, key, value)


def load_arguments(
    command: str,
    arguments: Sequence[Variable],
    defaults: Mapping[str, Any],
    remedies: Mapping[str, str],
    environ: Mapping[str, str] | None = None,
) -> Loaded:
    """The app that the arguments amount to; `defaults` are for keys that nothing else says.

    Raises AppFileError, each line of which begins with the `command`; `remedies` end those about keys that are missing.
    """
    table: dict[str, Any] = {}
    layers, wrong = layered(table, Path(command), environment(environ), arguments)
    for key, value in defaults.items():
        if layers.origin(key) == "default":
            put(table, key, value)
    return structured(layers, wrong, remedies)
