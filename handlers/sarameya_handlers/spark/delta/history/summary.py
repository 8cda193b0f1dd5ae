"""Searches in a Delta log that stay fast however long the log is, by a summary.

    _sarameya/heads.json      the last link of every chain as of one commit of the log (chains.ChainSummary)

Without a summary, a search for a chain with no recent link, or none at all, would read the whole log. So a sink writes
one every few hundred commits. A reader uses it only if the log has exactly the summary's last commit, and reads the
whole log otherwise: the file affects only the time taken.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

import msgspec

from sarameya_handlers.landing.errors import ChainError
from sarameya_handlers.landing.links import ChainKey
from sarameya_handlers.landing.stores.store import Store
from sarameya_handlers.spark.delta.history.chains import ChainHistory, ChainSummary, search, summarize
from sarameya_handlers.spark.delta.history.commits import DeltaCommit
from sarameya_handlers.spark.delta.history.log import DeltaLog

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

logger = logging.getLogger("sarameya.spark")

RENEWAL_INTERVAL = 256
"""Commits from one summary to the next."""
_MAX_READ = 2_000
"""Maximum number of commits that a search reads. A longer search is stopped, and repeated with a new summary."""
_MAX_FOR_RENEWAL = 20_000
"""Maximum number of commits since the last summary that are read from files only to renew it."""
_MAX_FOR_RENEWAL_BY_SQL = 1_000
"""The same limit for a log that is read by SQL."""


class SummarizedLog:
    """Searches in one table's log. Thread-safe: the summary is replaced, never changed."""

    def __init__(self, log: DeltaLog) -> None:
        self._log = log
        self._store: Store | None = None
        self._file = ""
        self._summary: ChainSummary | None = None
        self._tried = -1
        """The newest version when a renewal last failed."""

    def store_in(self, store: Store, file: str) -> None:
        """Load the summary from this file, if it has one, and write it there from now on."""
        self._store, self._file = store, file
        self._summary = _read(store, file)

    def search(self, spark: SparkSession, since: Mapping[ChainKey, int]) -> dict[ChainKey, ChainHistory]:
        """Return the links of each given chain, starting at the given number. Raises as `chains.search` does."""
        found = self._search_near(spark, since)
        if found is None:
            self._renew(spark)
            return search(self._log.commits(spark), since, self._summary)
        newest = max((chain.seen for chain in found.values()), default=-1)
        before = max(self._tried, self._summary.last.version if self._summary else -1)
        limit = _MAX_FOR_RENEWAL if self._log.store else _MAX_FOR_RENEWAL_BY_SQL
        if RENEWAL_INTERVAL <= newest - before <= limit:
            self._renew(spark)
        return found

    def _search_near(self, spark: SparkSession, since: Mapping[ChainKey, int]) -> dict[ChainKey, ChainHistory] | None:
        """Search the newest commits. Return None if they are not enough."""
        try:
            return search(_limited(self._log.commits(spark)), since, self._summary)
        except _LimitError:
            return None

    def _renew(self, spark: SparkSession) -> None:
        try:
            summary = summarize(self._log.commits(spark), self._summary)
        except ChainError as error:
            # Perhaps another chain is broken; the sink that lands in it reports the error.
            logger.debug("no summary of the log can be made: %s", error)
            self._tried = self._log.newest(spark)
            return
        self._summary = summary
        if summary is not None and self._store is not None:
            try:
                self._store.put_over(self._file, msgspec.json.encode(summary))
            except OSError as error:
                logger.debug("the summary of the log cannot be written: %s", error)


class _LimitError(Exception):
    """The search would read too many commits."""


def _limited(commits: Iterable[DeltaCommit]) -> Iterator[DeltaCommit]:
    for count, commit in enumerate(commits):
        if count == _MAX_READ:
            raise _LimitError
        yield commit


def _read(store: Store, file: str) -> ChainSummary | None:
    try:
        content = store.get(file)
        return None if content is None else msgspec.json.decode(content, type=ChainSummary)
    except (OSError, msgspec.MsgspecError, ChainError):
        return None
