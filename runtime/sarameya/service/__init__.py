"""What `sarameya` on the command line is: app files, the runner, signals, workers, the broker command.

Knows no handler by name: handlers come by entry point (`handlers.py`), and so do other people's
subcommands (`commands.py`). The names below are for those: how they ask for a cluster, and print what they have found,
as our own do.
"""

from sarameya.service.groups.arguments import Cluster, add_cluster_arguments, cluster
from sarameya.service.groups.tables import printable, table
from sarameya.service.groups.words import counted, listed

__all__ = ["Cluster", "add_cluster_arguments", "cluster", "counted", "listed", "printable", "table"]
