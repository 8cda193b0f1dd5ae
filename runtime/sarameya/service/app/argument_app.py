"""An app without an app file: a command's arguments override the environment, and both a `.properties` file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sarameya.service.app.app_file import Loaded, app_from_layers, environment
from sarameya.service.app.environment import Variable
from sarameya.service.app.layers import put, stack_layers


def load_arguments(
    command: str,
    arguments: Sequence[Variable],
    defaults: Mapping[str, Any],
    remedies: Mapping[str, str],
    environ: Mapping[str, str] | None = None,
) -> Loaded:
    """Return the app that the arguments describe.

    Args:
        command: The command's name. Error messages have it in place of a file.
        arguments: Values from the command line. They override all others.
        defaults: Values for keys that no other source gives.
        remedies: For each required key, what to do if it is missing.
        environ: The environment variables; this process's own by default.

    Raises:
        AppFileError: There are mistakes; all are listed.
    """
    table: dict[str, Any] = {}
    layers, wrong = stack_layers(table, Path(command), environment(environ), arguments)
    for key, value in defaults.items():
        if layers.origin(key) == "default":
            put(table, key, value)
    return app_from_layers(layers, wrong, remedies)
