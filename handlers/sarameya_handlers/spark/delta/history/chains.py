"""Search for chains in the history of a Delta table, from its newest commit backwards, no further than needed. Pure.

Commits that a RESTORE undid do not count: of `0 1 2 3 4 RESTORE(to 2)`, versions 0, 1, 2 and the RESTORE itself remain.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property

import attrs

from sarameya_handlers.landing.errors import BrokenChainError, RewoundTableError
from sarameya_handlers.landing.links import ChainKey, Link
from sarameya_handlers.spark.delta.history.commits import CommitMark, DeltaCommit

LAST = 1 << 62
"""Value of `since` to search for the last link only."""


@attrs.define(slots=True)
class ChainHistory:
    """Links of one chain, as found in the history."""

    links: list[Link] = attrs.field(factory=list)
    """In order. Their numbers are contiguous if the chain is sound."""
    seen: int = -1
    """The table's newest version when its history was read; -1 if there was no table."""
    term: int = 0
    """Term in which the next link must be written."""
    is_whole: bool = False
    """True if the history was read back to the table's first commit, or as far as requested."""


@attrs.frozen(slots=True, kw_only=True)
class ChainSummary:
    """The last link of every chain as of one commit. A search need not go further back than this commit.

    A summary depends only on the log up to that commit, which never changes. So any owner of a partition may write it,
    and it is valid if the log has exactly that commit.
    """

    last: DeltaCommit
    """The newest commit that the summary covers."""
    marks: tuple[CommitMark, ...]
    """The last link of each chain, as its commit records it."""
    restored: int = 0
    """Version of the newest RESTORE that no other RESTORE undid; 0 for none."""
    is_whole: bool = False
    """True if the summary goes back to the table's first commit: a chain not in it has no link yet."""

    @cached_property
    def by_key(self) -> dict[ChainKey, CommitMark]:
        return {mark.link.key: mark for mark in self.marks}


def search(
    commits: Iterable[DeltaCommit], since: Mapping[ChainKey, int], summary: ChainSummary | None = None
) -> dict[ChainKey, ChainHistory]:
    """Return the links of each given chain, starting at the given number.

    Args:
        commits: The history from its newest commit backwards. Read only as far as needed.
        since: Number of the first wanted link of each chain, or LAST.
        summary: Replaces all commits that it covers, if its links are the only ones still wanted.

    Raises:
        RewoundTableError: The table was restored to a time, not to a version.
        BrokenChainError: The links do not form a chain, or the writer of a link did not know of a RESTORE.
    """
    search = _HistorySearch(since)
    for commit in live(commits):
        if search.is_over(commit.version):
            break
        if summary is not None and commit == summary.last and search.may_end_with(summary):
            search.end_with(summary)
            break
        search.take(commit)
    return search.result()


def summarize(commits: Iterable[DeltaCommit], before: ChainSummary | None = None) -> ChainSummary | None:
    """Return the summary of these commits, from the newest one backwards; None if there are none.

    Args:
        commits: The history from its newest commit backwards.
        before: An older summary. It replaces the commits that it covers.

    Raises:
        RewoundTableError, BrokenChainError: As `search` does, for any chain.
    """
    search = _HistorySearch({}, others=LAST)
    last: DeltaCommit | None = None
    for commit in live(commits):
        if last is None and not (commit.mark or commit.stamp):
            continue  # without a mark or a stamp, it may equal a commit of an earlier table in this place
        last = last or commit
        if before is not None and commit == before.last:
            search.end_with(before)
            break
        search.take(commit)
    return None if last is None else search.summary(last)


def search_all(commits: Iterable[DeltaCommit]) -> dict[ChainKey, ChainHistory]:
    """Return every chain with all of its links in the history. Raises as `search` does."""
    search = _HistorySearch({}, others=0)
    for commit in live(commits):
        search.take(commit)
    return search.result()


def live(commits: Iterable[DeltaCommit]) -> Iterator[DeltaCommit]:
    """Yield the commits that no later RESTORE has undone, in the given order (newest first)."""
    undone_above: int | None = None
    for commit in commits:
        if undone_above is not None and commit.version > undone_above:
            continue
        yield commit
        if commit.restores is not None:
            if commit.restores < 0:
                raise RewoundTableError(
                    f"version {commit.version} restored the table to a time, so the links that remained are unknown: "
                    "restore it once more, to a version (RESTORE TABLE ... TO VERSION AS OF ...)"
                )
            undone_above = commit.restores


@attrs.define(slots=True)
class _ChainSearch:
    """State of the search for one chain."""

    since: int
    found: ChainHistory
    known_version: int = LAST
    """Newest version that the writer of the oldest link found knew. It did not know of a RESTORE above this version."""
    has_all_links: bool = False
    """True once no older link is wanted."""
    last: CommitMark | None = None

    def is_over(self, version: int) -> bool:
        """Return whether commits from this version backwards cannot change the result."""
        return self.has_all_links and version <= self.known_version

    def is_first_wanted(self, number: int) -> bool:
        """Return whether no link before this number is wanted."""
        return self.since == LAST or number <= max(self.since, 1)


class _HistorySearch:
    """A search for the given chains and, if `others` is given, for the links of all others from that number on."""

    def __init__(self, since: Mapping[ChainKey, int], *, others: int | None = None) -> None:
        self._others = others
        self._chains = {key: _ChainSearch(number, ChainHistory()) for key, number in since.items()}
        self._newest = -1
        self._oldest = -1
        self._restored = 0

    def is_over(self, version: int) -> bool:
        """Return whether commits from this version backwards cannot change the result of any chain."""
        return all(chain.is_over(version) for chain in self._chains.values())

    def take(self, commit: DeltaCommit) -> None:
        """Add the next older commit."""
        if self._newest < 0:
            self._newest = commit.version
        self._oldest = commit.version
        if commit.restores is not None:
            self._restored = self._restored or commit.version
            self._check_restored(commit.version)
        if commit.mark is not None:
            self._take_mark(commit.mark)

    def may_end_with(self, summary: ChainSummary) -> bool:
        """Return whether no links are wanted apart from those found and the summary's."""
        wanted = ((key, chain) for key, chain in self._chains.items() if not chain.has_all_links)
        return all(
            key not in summary.by_key or chain.is_first_wanted(summary.by_key[key].link.number) for key, chain in wanted
        )

    def end_with(self, summary: ChainSummary) -> None:
        """Finish the search with the summary in place of the commits that it covers."""
        if self._newest < 0:
            self._newest = summary.last.version
        self._oldest = 0 if summary.is_whole else summary.last.version
        self._restored = self._restored or summary.restored
        if summary.restored:
            self._check_restored(summary.restored)
        for mark in summary.marks:
            self._take_mark(mark)

    def result(self) -> dict[ChainKey, ChainHistory]:
        """Return the links of each chain that the commits taken so far have."""
        for chain in self._chains.values():
            found = chain.found
            found.seen = self._newest
            found.is_whole = chain.has_all_links or self._oldest <= 0
            if not found.links:
                found.term = self._restored
        return {key: chain.found for key, chain in self._chains.items()}

    def summary(self, last: DeltaCommit) -> ChainSummary:
        """Return the summary of all commits taken so far, the newest of which is `last`."""
        return ChainSummary(
            last=last,
            marks=tuple(chain.last for chain in self._chains.values() if chain.last is not None),
            restored=self._restored,
            is_whole=self._oldest <= 0,
        )

    def _check_restored(self, version: int) -> None:
        """Raise BrokenChainError if the writer of a newer link did not know of the RESTORE that made this version."""
        for chain in self._chains.values():
            if chain.found.links and chain.known_version < version:
                raise BrokenChainError(
                    f"{chain.found.links[0]} landed after version {version} had restored the table, by a member "
                    "that did not know of it: stop all members, and restore the table once more"
                )

    def _take_mark(self, mark: CommitMark) -> None:
        key = mark.link.key
        if self._others is not None and key not in self._chains:
            self._chains[key] = _ChainSearch(self._others, ChainHistory())
        if (chain := self._chains.get(key)) is not None and not chain.has_all_links:
            self._take_link(chain, mark)

    def _take_link(self, chain: _ChainSearch, mark: CommitMark) -> None:
        found = chain.found
        if not found.links:
            found.term = max(mark.term, self._restored)
            chain.last = mark
        found.links.insert(0, mark.link)
        chain.known_version = mark.seen
        chain.has_all_links = chain.is_first_wanted(mark.link.number)
