"""A Delta log that is searched as far back as its summary, however long it is.

    <root>/_sarameya/heads.json      where all chains ended as of one commit of the log (chains.Summary)

A chain in which nothing has landed for long, or never, would be looked for through the whole log. So each few hundred
commits whoever lands writes down what the log says up to then. Whoever reads it looks whether the log has the very
commit that it ends with, and reads the log itself where not: only time depends on the file.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from sarameya_handlers.landing.errors import ChainError
from sarameya_handlers.landing.files import put_over
from sarameya_handlers.landing.links import ChainKey
from sarameya_handlers.spark.delta.chains import Found, Summary, search, summarized
from sarameya_handlers.spark.delta.commits import Commit
from sarameya_handlers.spark.delta.log import DeltaLog

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

logger = logging.getLogger("sarameya.spark")

RENEWED_EACH = 256
"""Commits from one summary to the next."""
_FAR = 2_000
"""Commits that a search reads before the log is summarized first."""
_QUICKLY_READ = 20_000
"""Commits since the last summary that are read from files only in order to renew it."""
_QUICKLY_ASKED = 1_000
"""The same, of a log that Spark is asked for."""


class SummarizedLog:
    """Searches in one table's log. Used by several threads at once: the summary is replaced, never changed."""

    def __init__(self, log: DeltaLog) -> None:
        self._log = log
        self._file: Path | None = None
        self._summary: Summary | None = None
        self._tried = -1
        """The newest version when a renewal was last tried."""

    def is_kept_in(self, file: Path) -> None:
        """Take over the summary in this file, if it is one, and write there from now on."""
        self._file = file
        self._summary = _read(file)

    def search(self, spark: SparkSession, since: Mapping[ChainKey, int]) -> dict[ChainKey, Found]:
        """Return of each of these chains the links from that number on. Raises as `chains.search` does."""
        found = self._search_near(spark, since)
        if found is None:
            self._renew(spark)
            return search(self._log.commits(spark), since, self._summary)
        newest = max((chain.seen for chain in found.values()), default=-1)
        before = max(self._tried, self._summary.last.version if self._summary else -1)
        if RENEWED_EACH <= newest - before <= (_QUICKLY_READ if self._log.directory else _QUICKLY_ASKED):
            self._renew(spark)
        return found

    def _search_near(self, spark: SparkSession, since: Mapping[ChainKey, int]) -> dict[ChainKey, Found] | None:
        """Return None where the search goes far back."""
        try:
            return search(_near(self._log.commits(spark)), since, self._summary)
        except _FarError:
            return None

    def _renew(self, spark: SparkSession) -> None:
        try:
            summary = summarized(self._log.commits(spark), self._summary)
        except ChainError as error:
            # Of another chain, perhaps: whoever lands in that one is told.
            logger.debug("the log is not summarized: %s", error)
            self._tried = self._log.newest(spark)
            return
        self._summary = summary
        if summary is not None and self._file is not None:
            try:
                put_over(self._file, msgspec.json.encode(summary))
            except OSError as error:
                logger.debug("the summary of the log is not kept: %s", error)


class _FarError(Exception):
    """A search goes far back."""


def _near(commits: Iterable[Commit]) -> Iterator[Commit]:
    for count, commit in enumerate(commits):
        if count == _FAR:
            raise _FarError
        yield commit


def _read(file: Path) -> Summary | None:
    try:
        return msgspec.json.decode(file.read_bytes(), type=Summary)
    except (OSError, msgspec.MsgspecError, ChainError):
        return None
