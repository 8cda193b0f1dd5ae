"""Warn when a Delta log has grown so long that it slows every start.

Reads `_last_checkpoint`, and checks which commits' files exist. Reads no commit.
"""

from __future__ import annotations

from sarameya_handlers.landing.directory.numbered import last_number
from sarameya_handlers.landing.stores.store import Store
from sarameya_handlers.spark.delta.history.checkpoints import commit_file, last_checkpoint_version

LONG_LOG = 100_000
"""Commits in a log above which a service warns."""
LONG_SINCE_CHECKPOINT = 10_000
"""Commits after the last checkpoint above which a service warns."""


def growth_of(store: Store, newest: int, table: str) -> str:
    """Return a warning about a log that has grown too long, with the remedy; empty if it has not.

    Args:
        store: The table's files.
        newest: The table's newest version.
        table: The table's name in SQL.
    """

    def is_kept(back: int) -> bool:
        return back <= newest and store.is_there(commit_file(newest - back))

    first = "Stop the members for that: on S3 a commit of Spark may replace theirs. " if store.moves_by_copy else ""
    last = last_checkpoint_version(store)
    since_checkpoint = newest - (-1 if last is None else last)
    if since_checkpoint > LONG_SINCE_CHECKPOINT:
        return (
            f"the newest {since_checkpoint:,} commits of its log are in no checkpoint, and Spark reads each of them at "
            "a start. A checkpoint is written every delta.checkpointInterval commits: set it to 100 or less, and "
            f"find in the logs why none was written. {first}Or write one with the deltalake package, "
            "DeltaTable(path).create_checkpoint()"
        )
    kept = last_number(is_kept) + 1
    if kept > LONG_LOG:
        return (
            f"its log keeps {kept:,} commits, and Spark lists all of them at a start and at each of its own commits. "
            f"{first}Keep less history, ALTER TABLE {table} SET TBLPROPERTIES ('delta.logRetentionDuration' = "
            "'interval 7 days'), and restart the service; or land less often (max_age, file_bytes)"
        )
    return ""
