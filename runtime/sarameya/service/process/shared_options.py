"""Resources that a handler's class opens once for all workers of a supervisor.

A class may have `open_shared(options)`: an async context manager that the supervisor enters before it starts workers,
and exits when they have ended. It yields options as plain values. In the workers' handlers they replace the options of
the same names from the app file. Workers get them by the environment, since they may contain secrets.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Any

import attrs

from sarameya.service.app.app_file import App, HandlerSection
from sarameya.service.app.handler_factory import handler_class

_VARIABLE = "SARAMEYA_SHARED_OPTIONS"


def open_shared(section: HandlerSection) -> AbstractAsyncContextManager[Mapping[str, Any]]:
    """Return the context manager that yields the shared options. They are empty for a handler that shares nothing."""
    opened = getattr(handler_class(section.name), "open_shared", None)
    if opened is None:
        return nullcontext({})
    manager: AbstractAsyncContextManager[Mapping[str, Any]] = opened(section.options)
    return manager


def to_environment(options: Mapping[str, Any]) -> dict[str, str]:
    """Return the environment variable that carries the options to a worker."""
    return {_VARIABLE: json.dumps(dict(options))} if options else {}


def with_shared(app: App) -> App:
    """Return a worker's app with the supervisor's options. Remove them from the environment."""
    options = json.loads(os.environ.pop(_VARIABLE, "{}"))
    return attrs.evolve(app, handler=attrs.evolve(app.handler, options={**app.handler.options, **options}))
