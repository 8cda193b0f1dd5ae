"""The service and its command line: app files, the process that runs members, the status page, and all commands.

The service knows no handler by name: it loads handlers by entry points (`app/handler_factory.py`), and also other
packages' commands (`cli/commands.py`). The names exported here are for those commands. They parse cluster arguments,
print results, run an app from arguments, and show progress as the built-in commands do.
"""

from typing import TYPE_CHECKING

from sarameya.exports import lazy_names

if TYPE_CHECKING:
    from sarameya.service.app.app_file import App, HandlerSection, Loaded, ServiceSection, load_app
    from sarameya.service.app.argument_app import load_arguments
    from sarameya.service.app.cluster_arguments import (
        Cluster,
        add_client_arguments,
        add_cluster_arguments,
        client_given,
        cluster,
        name_and_value,
        names_cluster,
    )
    from sarameya.service.app.environment import Variable
    from sarameya.service.app.layers import Layers
    from sarameya.service.app.toml_writer import as_app_file
    from sarameya.service.output.command_result import log_client_event, print_out, show
    from sarameya.service.output.help_epilog import epilog
    from sarameya.service.output.progress_display import Display, QuietSteps, Steps, display, steps
    from sarameya.service.output.text import counted, listed, printable, table
    from sarameya.service.process.app_runner import add_run_arguments, make_handler, run_app
    from sarameya.service.process.group_watch import watch_group
    from sarameya.service.process.signals import Stop, run_program
else:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            ".app.app_file": "App HandlerSection Loaded ServiceSection load_app",
            ".app.argument_app": "load_arguments",
            ".app.cluster_arguments": (
                "Cluster add_client_arguments add_cluster_arguments client_given cluster name_and_value names_cluster"
            ),
            ".app.environment": "Variable",
            ".app.layers": "Layers",
            ".app.toml_writer": "as_app_file",
            ".output.command_result": "log_client_event print_out show",
            ".output.help_epilog": "epilog",
            ".output.progress_display": "Display QuietSteps Steps display steps",
            ".output.text": "counted listed printable table",
            ".process.app_runner": "add_run_arguments make_handler run_app",
            ".process.group_watch": "watch_group",
            ".process.signals": "Stop run_program",
        },
    )

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
    "as_app_file",
    "client_given",
    "cluster",
    "counted",
    "display",
    "epilog",
    "listed",
    "load_app",
    "load_arguments",
    "log_client_event",
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
