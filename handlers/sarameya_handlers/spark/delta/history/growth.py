"""Warn when a Delta log has grown so long that it slows every start.

Reads `_last_checkpoint`, and checks which commits' files exist. Reads no commit.
"""

from __future__ import annotations

from pathlib import Path

from sarameya_handlers.landing.directory.numbered import last_number
from sarameya_handlers.landing.files import is_there
from sarameya_handlers.spark.delta.history.checkpoints import last_checkpoint_version

LONG_LOG = 100_000
"""Commits in a log above which a service warns."""
LONG_SINCE_CHECKPOINT = 10_000
"""Commits after the last checkpoint above which a service warns."""


def growth_of(log: Path, newest: int, table: str) -> str:
    """Return a warning about a log that has grown too long, with the remedy; empty if it has not.

    Args:
        log: The table's `_delta_log`.
        newest: The table's newest version.
        table: The table's name in SQL.
    """

    def is_kept(back: int) -> bool:
        return back <= newest and is_there(log / f"{newest - back:020d}.json")

    last = last_checkpoint_version(log)
    since_checkpoint = newest - (-1 if last is None else last)
    if since_checkpoint > LONG_SINCE_CHECKPOINT:
        return (
            f"the newest {since_checkpoint:,} commits of its log are in no checkpoint, and Spark reads each of them at "
            "a start. Spark writes a checkpoint every delta.checkpointInterval commits: set it to 100 or less, and "
            "find in Spark's log why it has written none; or write one with the deltalake package, "
            "DeltaTable(path).create_checkpoint()"
        )
    kept = last_number(is_kept) + 1
    if kept > LONG_LOG:
        return (
            f"its log keeps {kept:,} commits, and Spark lists all of them at a start and at each of its own commits. "
            f"Keep less history, ALTER TABLE {table} SET TBLPROPERTIES ('delta.logRetentionDuration' = "
            "'interval 7 days'), and restart the service; or land less often (max_age, file_bytes)"
        )
    return ""
