"""What `sarameya` on the command line is: app files, the runner, signals, workers, the broker command.

Knows no handler by name: handlers come by entry point (`handlers.py`), and so do other people's
subcommands (`commands.py`).
"""
