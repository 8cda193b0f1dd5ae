"""Checkpoints of Delta tables in object stores, by delta-rs: Spark writes one only with a commit, unsafe there.

A checkpoint lets readers skip the commits before it. Its file may be written twice: all writers write the same.
"""

from __future__ import annotations

import logging
from importlib.util import find_spec

from sarameya import HandlerError, install_command
from sarameya_handlers.landing.stores.store import Store

logger = logging.getLogger("sarameya.spark")


def require_delta_rs() -> None:
    """Raise HandlerError if delta-rs is not installed."""
    if find_spec("deltalake") is None:
        raise HandlerError(
            f"a Delta table in an object store needs deltalake for its checkpoints: {install_command('delta')}"
        )


def write_checkpoint(store: Store, *, cleans_up: bool) -> None:
    """Write a checkpoint of the newest version. A failure is logged: the next checkpoint replaces this one.

    Args:
        store: The table's files.
        cleans_up: Whether commits that are older than the table's retention are removed.
    """
    try:
        from deltalake import DeltaTable

        table = DeltaTable(store.place, storage_options=store.delta_options())
        table.create_checkpoint()
        if cleans_up:
            table.cleanup_metadata()
    except Exception as error:  # noqa: BLE001  delta-rs and botocore raise many types; the commit is made anyway
        logger.warning("no checkpoint of %s was written, so that it is read more slowly: %s", store.place, error)
