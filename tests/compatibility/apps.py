"""App files, environments and command lines as users had them, and what `sarameya` makes of each."""

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
"""An app file, and a file of environment variables or none."""

Call = Callable[..., tuple[int, str, str]]
"""Calls the program: its exit code, stdout, stderr."""


def environment(name: str) -> dict[str, str]:
    """Return the variables of a file that has one on each line."""
    if not name:
        return {}
    lines = (APPS / name).read_text(encoding="utf-8").splitlines()
    return {key: value for key, _, value in (line.partition("=") for line in lines)}


@contextmanager
def in_apps(variables: Mapping[str, str]) -> Iterator[None]:
    """Work in the directory of the app files, with these SARAMEYA_ variables and no others."""
    before, here = dict(os.environ), Path.cwd()
    for name in [name for name in os.environ if name.startswith("SARAMEYA_")]:
        del os.environ[name]
    os.environ.update(variables)
    os.chdir(APPS)
    try:
        yield
    finally:
        os.chdir(here)
        os.environ.clear()
        os.environ.update(before)


def effective(call: Call, case: str) -> tuple[dict[str, list[Any]], str]:
    """Each key's value and origin, as `config show` says it; and what it prints to stderr."""
    file, variables = CASES[case]
    with in_apps(environment(variables)):
        code, out, err = call("config", "show", file, "--json")
    assert code == 0, err
    return {row["key"]: [row["value"], row["origin"]] for row in json.loads(out)["settings"]}, err


def command_lines() -> list[list[str]]:
    """Return the words behind `sarameya` of each recorded command line."""
    lines = (FIXTURES / "commands.txt").read_text(encoding="utf-8").splitlines()
    return [shlex.split(line)[1:] for line in lines]


def land_lines() -> list[list[str]]:
    return [words for words in command_lines() if words[0] == "land"]


def printed_app(call: Call, words: Sequence[str]) -> dict[str, Any]:
    """The app that `sarameya land ... --print-app` says a command line is."""
    with in_apps({}):
        code, out, err = call(*words, "--print-app")
    assert code == 0, err
    app = tomllib.loads(out)
    if "properties" in app:
        app["properties"] = str(Path(app["properties"]).relative_to(APPS))
    return app
