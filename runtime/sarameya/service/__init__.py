"""What `sarameya` on the command line is: app files, the environment, the runner, signals, workers, the broker command.

Knows no handler by name: handlers come by entry point (`handlers.py`), and so do other people's
subcommands (`commands.py`). The names below are for those: how they ask for a cluster, and print what they have found,
as our own do; how they run an app that they have made of their arguments, and show how far work has come.
"""

from sarameya.service.answering import log_asking, print_out, show
from sarameya.service.app_file import App, HandlerSection, Loaded, ServiceSection
from sarameya.service.app_toml import as_app_file
from sarameya.service.argument_app import argument, load_arguments
from sarameya.service.catching_up import watch_group
from sarameya.service.cluster_arguments import (
    Cluster,
    add_client_arguments,
    add_cluster_arguments,
    client_given,
    cluster,
    name_and_value,
    names_cluster,
)
from sarameya.service.environment import Variable
from sarameya.service.epilogs import epilog
from sarameya.service.groups.tables import printable, table
from sarameya.service.groups.words import counted, listed
from sarameya.service.layers import Layers
from sarameya.service.progress import Display, QuietSteps, Steps, display, steps
from sarameya.service.running import add_run_arguments, make_handler, run_app
from sarameya.service.signals import Stop
from sarameya.service.signals import run as run_program

__all__ = [
    "App",
    "Cluster",
    "Display",
    "HandlerSection",
    "Layers",
    "Loaded",
    "QuietSteps",
    "ServiceSection",
    "Steps",
    "Stop",
    "Variable",
    "add_client_arguments",
    "add_cluster_arguments",
    "add_run_arguments",
    "argument",
    "as_app_file",
    "client_given",
    "cluster",
    "counted",
    "display",
    "epilog",
    "listed",
    "load_arguments",
    "log_asking",
    "make_handler",
    "name_and_value",
    "names_cluster",
    "print_out",
    "printable",
    "run_app",
    "run_program",
    "show",
    "steps",
    "table",
    "watch_group",
]
