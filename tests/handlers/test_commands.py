"""Entry points of the handlers' commands. The list of commands reads them without importing the commands."""

from __future__ import annotations

import argparse
import re
from importlib.metadata import EntryPoint, entry_points

import pytest

from sarameya_handlers.commands import Command

ENTRIES = entry_points(group="sarameya.commands").select(module="sarameya_handlers.commands")


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.name)
def test_summary_is_the_start_of_the_description(entry: EntryPoint) -> None:
    parser = argparse.ArgumentParser()
    command = entry.load()
    command(parser)
    assert parser.description is not None
    start = re.split(r"[.:] ", parser.description)[0]
    assert command.summary == start[:1].lower() + start[1:]
    assert isinstance(command, Command)
    assert parser.get_default("run") is not None


def test_all_commands_are_entry_points() -> None:
    assert {entry.name for entry in ENTRIES} == {"compact", "land", "rewind", "sweep", "verify"}
