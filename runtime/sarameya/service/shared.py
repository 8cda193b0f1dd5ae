"""What all workers of a supervisor share: something that a handler's class opens once, beside them.

A class may have `open_shared(options)`: an async context manager, entered by the supervisor before it starts workers
and left when they have ended. What it yields are options, as plain values, that the workers' handlers are given in
place of those of the same names in the app file. They reach a worker by its environment: there may be a secret in them.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Any

import attrs

from sarameya.service.app_file import App, HandlerSection
from sarameya.service.handlers import handler_class

_VARIABLE = "SARAMEYA_SHARED_OPTIONS"


def open_shared(section: HandlerSection) -> AbstractAsyncContextManager[Mapping[str, Any]]:
    """Entered, it yields the options that workers are given instead; none for a handler that shares nothing."""
    opened = getattr(handler_class(section.name), "open_shared", None)
    if opened is None:
        return nullcontext({})
    manager: AbstractAsyncContextManager[Mapping[str, Any]] = opened(section.options)
    return manager


def to_environment(options: Mapping[str, Any]) -> dict[str, str]:
    """What a worker's environment has of them."""
    return {_VARIABLE: json.dumps(dict(options))} if options else {}


def with_shared(app: App) -> App:
    """A worker's app, with the options that its supervisor has put into the environment, whence they are taken out."""
    options = json.loads(os.environ.pop(_VARIABLE, "{}"))
    return attrs.evolve(app, handler=attrs.evolve(app.handler, options={**app.handler.options, **options}))
