"""Recorded app files, environments and command lines, and the configuration that `sarameya` reads from each."""

from __future__ import annotations

import json
import os
import shlex
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.compatibility.kit import FIXTURES

APPS = FIXTURES / "apps"
CASES: Mapping[str, tuple[str, str]] = {
    **{name: (f"{name}.toml", "") for name in ("print", "landing", "everything", "delta", "iceberg", "path", "client")},
    "variables": ("print.toml", "variables.env"),
    "options": ("print.toml", "options.env"),
    "properties": ("client.toml", "variables.env"),
    "beneath": ("print.toml", "properties.env"),
}
"""Case -> its app file, and its file of environment variables or ""."""

Call = Callable[..., tuple[int, str, str]]
"""A function that runs the program with these arguments, and returns its exit code, stdout and stderr."""


def environment(name: str) -> dict[str, str]:
    """Return the variables of a file with one NAME=VALUE on each line; none for an empty name."""
    if not name:
        return {}
    lines = (APPS / name).read_text(encoding="utf-8").splitlines()
    return {key: value for key, _, value in (line.partition("=") for line in lines)}


@contextmanager
def in_apps(variables: Mapping[str, str]) -> Iterator[None]:
    """Change to the directory of the app files, and replace all SARAMEYA_ variables of the environment by these."""
    environment_before, directory_before = dict(os.environ), Path.cwd()
    for name in [name for name in os.environ if name.startswith("SARAMEYA_")]:
        del os.environ[name]
    os.environ.update(variables)
    os.chdir(APPS)
    try:
        yield
    finally:
        os.chdir(directory_before)
        os.environ.clear()
        os.environ.update(environment_before)


def effective(call: Call, case: str) -> tuple[dict[str, list[Any]], str]:
    """Run `config show`. Return each key's value and origin, and the text on stderr."""
    file, variables = CASES[case]
    with in_apps(environment(variables)):
        code, out, err = call("config", "show", file, "--json")
    assert code == 0, err
    return {row["key"]: [row["value"], row["origin"]] for row in json.loads(out)["settings"]}, err


def command_lines() -> list[list[str]]:
    """Return the arguments of `sarameya` in each recorded command line."""
    lines = (FIXTURES / "commands.txt").read_text(encoding="utf-8").splitlines()
    return [shlex.split(line)[1:] for line in lines]


def land_lines() -> list[list[str]]:
    return [arguments for arguments in command_lines() if arguments[0] == "land"]


def printed_app(call: Call, arguments: Sequence[str]) -> dict[str, Any]:
    """Return the app file that `sarameya land ... --print-app` prints for a command line."""
    with in_apps({}):
        code, out, err = call(*arguments, "--print-app")
    assert code == 0, err
    app = tomllib.loads(out)
    if "properties" in app:
        app["properties"] = str(Path(app["properties"]).relative_to(APPS))
    return app
