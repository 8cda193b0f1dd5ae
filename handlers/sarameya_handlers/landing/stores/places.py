"""Stores by the paths and URLs that users write."""

from __future__ import annotations

import os
import re
from pathlib import Path

from sarameya import ConfigError, HandlerError, install_command
from sarameya_handlers.landing.stores.local import LocalStore
from sarameya_handlers.landing.stores.options import ALLOWED, StoreOptions
from sarameya_handlers.landing.stores.store import Store

_URL = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)://(?P<rest>.*)", re.DOTALL)


def store_at(place: str | os.PathLike[str], options: StoreOptions | None = None) -> Store:
    """Return the store at a path or URL. Nothing is read or written yet.

    Args:
        place: A path of this machine, or a URL of an object store.
        options: How to reach an object store.

    Raises:
        ConfigError: The place is neither.
        HandlerError: The library for object stores is not installed.
    """
    text = os.fspath(place)
    if not isinstance(text, str) or not text:
        raise ConfigError("path", place, ALLOWED)
    url = _URL.fullmatch(text)
    if options is not None and (url is None or url["scheme"] == "file"):
        raise ConfigError("store", options, f"is for URLs of object stores, not for {text}")
    if url is None:
        return LocalStore(Path(text).absolute())
    if url["scheme"] == "file":
        return LocalStore(Path("/", url["rest"]))
    try:
        from sarameya_handlers.landing.stores.clients import access
        from sarameya_handlers.landing.stores.objects import ObjectStore
    except ImportError as error:
        raise HandlerError(f"a table in an object store needs obstore: {install_command('spark')}") from error
    address = text.rstrip("/")
    return ObjectStore(address, access(address, options or StoreOptions()))
