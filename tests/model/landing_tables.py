"""Tables of the landing model: a chain for each partition, as each kind of table stores it.

A write checks that its link is the next one, and then appends it atomically; anything may happen between. The kinds
differ in how much they remember. A directory of manifests keeps all links. Delta keeps the number of the last link, and
the links in its log. Iceberg keeps the links of its snapshots, and the existence of the chain.
"""

from __future__ import annotations

from itertools import count, takewhile

import attrs

from sarameya_handlers.landing.errors import ForgottenChainError
from sarameya_handlers.landing.links import ChainKey, Link

RETENTION = 20
"""The time for which a table that forgets keeps a link."""


@attrs.frozen
class Commit:
    """An appended link, the offsets of its rows, and its time. `version` numbers the commits of all chains."""

    link: Link
    rows: tuple[int, ...]
    at: int
    version: int


@attrs.define
class Table:
    """A directory of manifests, which forgets nothing: a manifest is written only if its number is free."""

    commits: dict[ChainKey, list[Commit]] = attrs.field(factory=dict)
    """All commits of each chain in order, including the forgotten ones."""
    _forgotten: dict[ChainKey, int] = attrs.field(factory=dict)
    """The number of forgotten commits of each chain: its oldest ones."""
    _versions: count[int] = attrs.field(factory=count)

    # -- what an owner reads -------------------------------------------------------------------------

    def head(self, key: ChainKey) -> Link | None:
        """Return the last link; None for an empty chain. Raises ForgottenChainError."""
        if remembered := self._remembered(key):
            return remembered[-1].link
        if self.commits.get(key):
            raise ForgottenChainError(f"{key}: the table has forgotten its last link")
        return None

    def links(self, key: ChainKey, since: int) -> list[Link]:
        return [commit.link for commit in self._remembered(key) if commit.link.number >= since]

    # -- writes --------------------------------------------------------------------------------------

    def is_next(self, link: Link) -> bool:
        """Return whether the link is the next one, as far as a writer can see before it appends."""
        return True

    def may_append(self, link: Link, waited: int) -> bool:
        """Return whether the table accepts the link, `waited` after `is_next`: no other link has its number."""
        return all(commit.link.number != link.number for commit in self.commits.get(link.key, ()))

    def append(self, link: Link, rows: tuple[int, ...], *, now: int, checked_at: int) -> bool:
        if not self.may_append(link, now - checked_at):
            return False
        self.commits.setdefault(link.key, []).append(Commit(link, rows, now, next(self._versions)))
        return True

    def forget(self, now: int) -> None:
        """Forget commits that are older than RETENTION."""

    def restore(self, version: int) -> None:
        """Restore the table to the state before `version`."""
        for key, commits in self.commits.items():
            del commits[sum(commit.version < version for commit in commits) :]
            self._forgotten[key] = min(self._forgotten.get(key, 0), len(commits))

    # -- for the model alone -------------------------------------------------------------------------

    def has_forgotten(self, key: ChainKey, since: int) -> bool:
        """Return whether the table has forgotten a link with at least this number."""
        return any(commit.link.number >= since for commit in self.commits.get(key, [])[: self._forgotten.get(key, 0)])

    def _remembered(self, key: ChainKey) -> list[Commit]:
        return self.commits.get(key, [])[self._forgotten.get(key, 0) :]


class ExpiringTable(Table):
    """A table that forgets commits by age."""

    def forget(self, now: int) -> None:
        for key, commits in self.commits.items():
            self._forgotten[key] = sum(1 for _ in takewhile(lambda commit: commit.at < now - RETENTION, commits))

    def is_next(self, link: Link) -> bool:
        remembered = self._remembered(link.key)
        return link.number == (remembered[-1].link.number + 1 if remembered else 1)


class DeltaTable(ExpiringTable):
    """A table like Delta: it keeps the last link's number as an application transaction, which never decreases."""

    def may_append(self, link: Link, waited: int) -> bool:
        commits = self.commits.get(link.key)
        return not commits or link.number > commits[-1].link.number


class IcebergTable(ExpiringTable):
    """A table like Iceberg: it knows that a link's number is taken while the link's snapshot exists.

    The existence of a chain is a property of the table, and stays. The protocol relies on one assumption: no process
    sleeps between looking and appending for longer than snapshots are kept.
    """

    def is_next(self, link: Link) -> bool:
        is_unknown = not self._remembered(link.key) and bool(self.commits.get(link.key))
        return not is_unknown and super().is_next(link)

    def may_append(self, link: Link, waited: int) -> bool:
        return waited <= RETENTION and link.number not in {one.link.number for one in self._remembered(link.key)}
