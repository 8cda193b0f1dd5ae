"""Warn when a Delta log has grown so long that it slows every start.

Reads `_last_checkpoint`, and looks for names of commits. Reads no commit.
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
    """Return what has grown too long in a log and what to do about it; empty if nothing has.

    Args:
        log: The table's `_delta_log`.
        newest: The table's newest version.
        table: The table's name in SQL.
    """

    def is_kept(back: int) -> bool:
        return back <= newest and is_there(log / f"{newest - back:020d}.json")

    last = last_checkpoint_version(log)
    behind = newest - (-1 if last is None else last)
    if behind > LONG_SINCE_CHECKPOINT:
        return (
            f"the newest {behind:,} commits of its log are in no checkpoint, and Spark reads each of them at a start. "
            "Spark writes one every delta.checkpointInterval commits: let that be 100 or less, and look in Spark's log "
            "why it has not; or write one by the deltalake package, DeltaTable(path).create_checkpoint()"
        )
    kept = last_number(is_kept) + 1
    if kept > LONG_LOG:
        return (
            f"its log keeps {kept:,} commits, and Spark lists all of them at a start and at each of its own commits. "
            f"Keep less history, ALTER TABLE {table} SET TBLPROPERTIES ('delta.logRetentionDuration' = "
            "'interval 7 days'), and restart the service; or land less often (max_age, file_bytes)"
        )
    return ""
