"""Chains in the history of a Delta table, read from its newest commit backwards as far as is needed. Pure.

What a RESTORE has undone does not count: of `0 1 2 3 4 RESTORE(to 2)` there remain 0, 1 and 2, and the commit itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

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


def search(commits: Iterable[Commit], since: Mapping[ChainKey, int]) -> dict[ChainKey, Found]:
    """Of each of these chains the links from that number on, by all commits from the newest one backwards.

    No more are taken than are needed. Raises RewoundTableError and BrokenChainError.
    """
    search = _Search(since)
    for commit in live(commits):
        if search.is_over(commit.version):
            break
        search.take(commit)
    return search.result()


def everything(commits: Iterable[Commit]) -> dict[ChainKey, Found]:
    """Every chain that there is, with all of its links that the history has. Raises as `search` does."""
    search = _Search(None)
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

    def is_over(self, version: int) -> bool:
        return self.has_enough and version <= self.checked_down_to


class _Search:
    def __init__(self, since: Mapping[ChainKey, int] | None) -> None:
        self._everything = since is None
        self._chains = {key: _Chain(number, Found()) for key, number in (since or {}).items()}
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
            self._take_restore(commit)
        mark = commit.mark
        if mark is None:
            return
        key = mark.link.key
        if self._everything and key not in self._chains:
            self._chains[key] = _Chain(0, Found())
        if (chain := self._chains.get(key)) is not None and not chain.has_enough:
            self._take_link(chain, mark)

    def _take_restore(self, commit: Commit) -> None:
        self._restored = self._restored or commit.version
        for chain in self._chains.values():
            if chain.found.links and chain.checked_down_to < commit.version:
                raise BrokenChainError(
                    f"{chain.found.links[0]} landed after version {commit.version} had restored the table, by a member "
                    "that did not know: stop all members, and restore the table once more"
                )

    def _take_link(self, chain: _Chain, mark: Mark) -> None:
        found = chain.found
        if not found.links:
            found.term = max(mark.term, self._restored)
        found.links.insert(0, mark.link)
        chain.checked_down_to = mark.seen
        chain.has_enough = mark.link.number <= max(chain.since, 1) or chain.since == LAST

    def result(self) -> dict[ChainKey, Found]:
        for chain in self._chains.values():
            found = chain.found
            found.seen = self._newest
            found.is_whole = chain.has_enough or self._oldest <= 0
            if not found.links:
                found.term = self._restored
        return {key: chain.found for key, chain in self._chains.items()}
