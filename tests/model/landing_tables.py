"""Tables for the model of landing: as many chains as there are partitions, and how each kind of table keeps them.

Appending is a look and a swap, between which anything may happen. The kinds differ in what they remember of it: a
directory of manifests all; Delta the number of the last link, and of the links themselves those of its log; Iceberg
those of its snapshots alone, and that there has been a chain.
"""

from __future__ import annotations

from itertools import count, takewhile

import attrs

from sarameya_handlers.landing.errors import ForgottenChainError
from sarameya_handlers.landing.links import ChainKey, Link

RETENTION = 20
"""For so long a table that forgets keeps a link."""


@attrs.frozen
class Commit:
    """A link that was appended, the offsets of its rows, and when that was. `version` numbers the commits of all."""

    link: Link
    rows: tuple[int, ...]
    at: int
    version: int


@attrs.define
class Table:
    """Forgets nothing: links are manifests, each put only if there is none of its number."""

    commits: dict[ChainKey, list[Commit]] = attrs.field(factory=dict)
    """All, of each chain in order, also those that are forgotten."""
    _forgotten: dict[ChainKey, int] = attrs.field(factory=dict)
    """How many of them, the oldest."""
    _versions: count[int] = attrs.field(factory=count)

    # -- what an owner is told -----------------------------------------------------------------------

    def head(self, key: ChainKey) -> Link | None:
        """Raises ForgottenChainError."""
        if remembered := self._remembered(key):
            return remembered[-1].link
        if self.commits.get(key):
            raise ForgottenChainError(f"{key}: nobody knows where it ends")
        return None

    def links(self, key: ChainKey, since: int) -> list[Link]:
        return [commit.link for commit in self._remembered(key) if commit.link.number >= since]

    # -- what it does --------------------------------------------------------------------------------

    def is_next(self, link: Link) -> bool:
        """The look: whether it is that link's turn, as far as that can be seen."""
        return True

    def may_append(self, link: Link, waited: int) -> bool:
        """The swap, so long after the look: whether nobody has appended a link of that number."""
        return all(commit.link.number != link.number for commit in self.commits.get(link.key, ()))

    def append(self, link: Link, rows: tuple[int, ...], *, now: int, looked_at: int) -> bool:
        if not self.may_append(link, now - looked_at):
            return False
        self.commits.setdefault(link.key, []).append(Commit(link, rows, now, next(self._versions)))
        return True

    def forget(self, now: int) -> None:
        """Forget commits that are older than RETENTION."""

    def restore(self, version: int) -> None:
        """Restore the table to the version before this one."""
        for key, commits in self.commits.items():
            del commits[sum(commit.version < version for commit in commits) :]
            self._forgotten[key] = min(self._forgotten.get(key, 0), len(commits))

    # -- what only the model asks --------------------------------------------------------------------

    def has_forgotten(self, key: ChainKey, since: int) -> bool:
        """Return whether the table has forgotten a link with at least this number."""
        return any(commit.link.number >= since for commit in self.commits.get(key, [])[: self._forgotten.get(key, 0)])

    def _remembered(self, key: ChainKey) -> list[Commit]:
        return self.commits.get(key, [])[self._forgotten.get(key, 0) :]


class Forgetting(Table):
    """Its history is cleaned up by age."""

    def forget(self, now: int) -> None:
        for key, commits in self.commits.items():
            self._forgotten[key] = sum(1 for _ in takewhile(lambda commit: commit.at < now - RETENTION, commits))

    def is_next(self, link: Link) -> bool:
        remembered = self._remembered(link.key)
        return link.number == (remembered[-1].link.number + 1 if remembered else 1)


class Counted(Forgetting):
    """A table like Delta: the number of the last link is an application transaction, which stays, and only rises."""

    def may_append(self, link: Link, waited: int) -> bool:
        commits = self.commits.get(link.key)
        return not commits or link.number > commits[-1].link.number


class Published(Forgetting):
    """A table like Iceberg: a link's number is known to be taken as long as its snapshot exists.

    The existence of a chain is a property of the table, and stays. The protocol relies on one assumption: no process
    sleeps between looking and appending for longer than snapshots are kept.
    """

    def is_next(self, link: Link) -> bool:
        is_unknown = not self._remembered(link.key) and bool(self.commits.get(link.key))
        return not is_unknown and super().is_next(link)

    def may_append(self, link: Link, waited: int) -> bool:
        return waited <= RETENTION and link.number not in {one.link.number for one in self._remembered(link.key)}
