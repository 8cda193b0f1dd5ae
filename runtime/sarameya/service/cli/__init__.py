"""The command line: the root parser, its commands, and the reference pages drawn from them.

`program` parses and runs, `commands` lists the subcommands, `*_command` are those that have no folder of their own.
`effective_config` is what `sarameya config show` prints; `options_page` and `reference_page` make docs/configuration.md
and docs/cli.md.
"""

from sarameya.service.cli.program import main

__all__ = ["main"]
