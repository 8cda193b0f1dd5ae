"""Chains in the history of a Delta table, read from its newest commit backwards as far as is needed. Pure.

What a RESTORE has undone does not count: of `0 1 2 3 4 RESTORE(to 2)` there remain 0, 1 and 2, and the commit itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property

import attrs

from sarameya_handlers.landing.errors import BrokenChainError, RewoundTableError
from sarameya_handlers.landing.links import ChainKey, Link
from sarameya_handlers.spark.delta.commits import Commit, Mark

LAST = 1 << 62
"""In the place of a number: the last link is enough."""


@attrs.define(slots=True)
class Found:
    """What the history says of one chain."""

    links: list[Link] = attrs.field(factory=list)
    """In order; contiguous by their number as far as the chain is sound."""
    seen: int = -1
    """The table's newest version when this was read; -1 where there was no table."""
    term: int = 0
    """That in which the next link is to be written."""
    is_whole: bool = False
    """Whether the history was there from the table's beginning, or as far as was asked for."""


@attrs.frozen(slots=True, kw_only=True)
class Summary:
    """Where all chains ended as of one commit: a search need not go back beyond it.

    A function of the log up to that commit, which never changes. So any owner may write it, and it counts wherever the
    log has that very commit.
    """

    last: Commit
    """The newest commit that it covers."""
    marks: tuple[Mark, ...]
    """The last link of each chain, as its commit marks it."""
    restored: int = 0
    """The newest RESTORE that was not undone by another one; 0 for none."""
    is_whole: bool = False
    """Whether it goes back to the table's first commit: a chain that is not in it had not begun."""

    @cached_property
    def by_key(self) -> dict[ChainKey, Mark]:
        return {mark.link.key: mark for mark in self.marks}


def search(
    commits: Iterable[Commit], since: Mapping[ChainKey, int], summary: Summary | None = None
) -> dict[ChainKey, Found]:
    """Return of each of these chains the links from that number on.

    Args:
        commits: All that there are, from the newest one backwards. No more are taken than are needed.
        since: The number of each chain's first link that is wanted, or LAST.
        summary: Taken for all that lies before it, where that is enough.

    Raises:
        RewoundTableError: The table was restored to a time, not to a version.
        BrokenChainError: The links are no chain, or a link landed in ignorance of a RESTORE.
    """
    search = _Search(since)
    for commit in live(commits):
        if search.is_over(commit.version):
            break
        if summary is not None and commit == summary.last and search.may_end_with(summary):
            search.end_with(summary)
            break
        search.take(commit)
    return search.result()


def summarized(commits: Iterable[Commit], before: Summary | None = None) -> Summary | None:
    """Return the summary of these commits, from the newest one backwards, and of those in `before`.

    None where there are none. Raises as `search` does, for any chain.
    """
    search = _Search({}, others=LAST)
    last: Commit | None = None
    for commit in live(commits):
        if last is None and not (commit.mark or commit.stamp):
            continue  # another table may have the same
        last = last or commit
        if before is not None and commit == before.last:
            search.end_with(before)
            break
        search.take(commit)
    return None if last is None else search.summary(last)


def everything(commits: Iterable[Commit]) -> dict[ChainKey, Found]:
    """Every chain that there is, with all of its links that the history has. Raises as `search` does."""
    search = _Search({}, others=0)
    for commit in live(commits):
        search.take(commit)
    return search.result()


def live(commits: Iterable[Commit]) -> Iterator[Commit]:
    """Those that no later RESTORE has undone, from the newest one backwards, as they are given."""
    undone_above: int | None = None
    for commit in commits:
        if undone_above is not None and commit.version > undone_above:
            continue
        yield commit
        if commit.restores is not None:
            if commit.restores < 0:
                raise RewoundTableError(
                    f"version {commit.version} restored the table to a time, which does not say which links remained: "
                    "restore it once more, to a version (RESTORE TABLE ... TO VERSION AS OF ...)"
                )
            undone_above = commit.restores


@attrs.define(slots=True)
class _Chain:
    """A search for one chain."""

    since: int
    found: Found
    checked_down_to: int = LAST
    """As far back as this a RESTORE would mean that a link was written in ignorance of it."""
    has_enough: bool = False
    last: Mark | None = None

    def is_over(self, version: int) -> bool:
        return self.has_enough and version <= self.checked_down_to

    def is_enough(self, number: int) -> bool:
        """Whether no link before the one of this number is wanted."""
        return self.since == LAST or number <= max(self.since, 1)


class _Search:
    """A search for these chains, and for all `others` from that number on, if one is given."""

    def __init__(self, since: Mapping[ChainKey, int], *, others: int | None = None) -> None:
        self._others = others
        self._chains = {key: _Chain(number, Found()) for key, number in since.items()}
        self._newest = -1
        self._oldest = -1
        self._restored = 0

    def is_over(self, version: int) -> bool:
        """Whether commits from this version backwards have nothing to say any more."""
        return all(chain.is_over(version) for chain in self._chains.values())

    def take(self, commit: Commit) -> None:
        if self._newest < 0:
            self._newest = commit.version
        self._oldest = commit.version
        if commit.restores is not None:
            self._restored = self._restored or commit.version
            self._check_restored(commit.version)
        if commit.mark is not None:
            self._take_mark(commit.mark)

    def may_end_with(self, summary: Summary) -> bool:
        """Whether the last links of chains, which it has, are all that is still wanted."""
        wanted = ((key, chain) for key, chain in self._chains.items() if not chain.has_enough)
        return all(
            key not in summary.by_key or chain.is_enough(summary.by_key[key].link.number) for key, chain in wanted
        )

    def end_with(self, summary: Summary) -> None:
        """Take the summary for all commits from its newest one backwards."""
        if self._newest < 0:
            self._newest = summary.last.version
        self._oldest = 0 if summary.is_whole else summary.last.version
        self._restored = self._restored or summary.restored
        if summary.restored:
            self._check_restored(summary.restored)
        for mark in summary.marks:
            self._take_mark(mark)

    def result(self) -> dict[ChainKey, Found]:
        for chain in self._chains.values():
            found = chain.found
            found.seen = self._newest
            found.is_whole = chain.has_enough or self._oldest <= 0
            if not found.links:
                found.term = self._restored
        return {key: chain.found for key, chain in self._chains.items()}

    def summary(self, last: Commit) -> Summary:
        """Of all that was taken, whose newest is `last`."""
        return Summary(
            last=last,
            marks=tuple(chain.last for chain in self._chains.values() if chain.last is not None),
            restored=self._restored,
            is_whole=self._oldest <= 0,
        )

    def _check_restored(self, version: int) -> None:
        for chain in self._chains.values():
            if chain.found.links and chain.checked_down_to < version:
                raise BrokenChainError(
                    f"{chain.found.links[0]} landed after version {version} had restored the table, by a member "
                    "that did not know: stop all members, and restore the table once more"
                )

    def _take_mark(self, mark: Mark) -> None:
        key = mark.link.key
        if self._others is not None and key not in self._chains:
            self._chains[key] = _Chain(self._others, Found())
        if (chain := self._chains.get(key)) is not None and not chain.has_enough:
            self._take_link(chain, mark)

    def _take_link(self, chain: _Chain, mark: Mark) -> None:
        found = chain.found
        if not found.links:
            found.term = max(mark.term, self._restored)
            chain.last = mark
        found.links.insert(0, mark.link)
        chain.checked_down_to = mark.seen
        chain.has_enough = chain.is_enough(mark.link.number)
