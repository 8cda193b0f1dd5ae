"""Entry points of the commands for tables: their summaries, and the modules that define them.

The list of all commands (`sarameya --help`) needs the summaries only, so it does not import the modules. Test:
`tests/handlers/test_commands.py::test_summary_is_the_start_of_the_description`.
"""

from __future__ import annotations

import argparse
from importlib import import_module


class Command:
    """A command that is imported when it is called.

    Attributes:
        summary: Text in the list of commands.
    """

    def __init__(self, module: str, summary: str) -> None:
        self.summary = summary
        self._module = module

    def __call__(self, parser: argparse.ArgumentParser) -> None:
        """Import the command, and add its arguments to `parser`."""
        import_module(f"sarameya_handlers.{self._module}").add_arguments(parser)


land = Command(
    "spark.land_command",
    "land topics in a table through Spark, each record exactly once, until a signal or, with --until-end, until all "
    "existing records have landed",
)
verify = Command("audit.commands.verify_command", "prove that the table holds each record exactly once")
sweep = Command(
    "audit.commands.sweep_command",
    "show files left by failed writes, or by attempts that lost to another owner, and with --execute remove them",
)
rewind = Command(
    "audit.commands.rewind_command",
    "set the committed offsets of the groups that land in the table back to an older version of it",
)
compact = Command("audit.commands.compact_command", "merge small files of a Parquet table into larger ones")
