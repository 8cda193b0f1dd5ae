"""The command line: the root parser, its commands, and the reference pages generated from them.

`program` parses the command line and runs the command. `commands` lists the subcommands. The `*_command` modules are
the subcommands without a folder of their own. `effective_config` makes the output of `sarameya config show`.
`options_page` and `reference_page` make docs/configuration.md and docs/cli.md.
"""

from sarameya.service.cli.program import main

__all__ = ["main"]
