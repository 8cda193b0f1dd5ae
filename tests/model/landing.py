"""A world for chains: one partition's log, a table, the group's commit, and owners of which all but one are zombies.

An owner reads, tries, settles and commits as a sink does, out of the pure core alone; everything that can come between
is a step of its own, so that a schedule decides it: a write that arrives late or never, an answer or a commit that is
lost, an owner that wakes when another has long taken over.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import count

import attrs

from sarameya import CommittedOffset
from sarameya_handlers.landing.chain import Chain, Outcome, State
from sarameya_handlers.landing.links import ChainKey, Link, Note, Origin
from sarameya_handlers.landing.starting import Log, begin

KEY = ChainKey("sink", "orders", 0)
ORIGIN = Origin(group="billing", topic_id="0" * 31 + "1")
_HIDDEN_EVERY = 7
"""Each so many-th offset is a control record's: it is in the log's numbers, and nobody is shown it."""


def is_shown(offset: int) -> bool:
    return offset % _HIDDEN_EVERY != _HIDDEN_EVERY - 1


@attrs.define
class Table:
    """Links and the offsets of their rows; at most one link of each number."""

    links: list[Link] = attrs.field(factory=list)
    rows: list[tuple[int, ...]] = attrs.field(factory=list)
    """Of each link."""

    def append(self, link: Link, rows: tuple[int, ...]) -> bool:
        """The compare-and-swap: whether it was the next."""
        if not self.may_append(link):
            return False
        self.links.append(link)
        self.rows.append(rows)
        return True

    def may_append(self, link: Link) -> bool:
        return link.number == len(self.links) + 1

    def read(self, head: Link | None) -> list[Link]:
        """All links from `head` on."""
        return self.links[head.number - 1 :] if head else list(self.links)


@attrs.define
class Pending:
    """A write that is on its way to the table."""

    link: Link
    rows: tuple[int, ...]
    owner: Owner


@attrs.define(eq=False)
class Owner:
    """A member that owns, or thinks that it owns, the partition."""

    world: World
    chain: Chain
    position: int
    buffer: list[int] = attrs.field(factory=list)
    told: bool | None = None
    """What the table's answer to the last try said, where one came."""

    def read(self, most: int) -> None:
        upto = min(self.position + most, self.world.end)
        self.buffer += [offset for offset in range(self.position, upto) if is_shown(offset)]
        self.position = max(upto, self.position)

    def propose(self, records: int) -> None:
        """Try to land the first so many of what is buffered, or all."""
        if self.chain.state is not State.READY or not self.buffer:
            return
        rows = tuple(self.buffer[: max(records, 1)])
        is_all = len(rows) == len(self.buffer)
        to_offset = self.position if is_all else self.buffer[len(rows)]
        link = self.chain.propose(
            self.world.first_offset, to_offset, attempt=f"{next(self.world.attempts):032x}", rows=len(rows)
        )
        self.told = None
        self.world.pending.append(Pending(link, rows, self))

    def settle(self) -> None:
        if self.chain.state is not State.TRYING:
            return
        settled = self.world.find(self)
        if settled is not Outcome.ABSENT:
            self.trim()

    def trim(self) -> None:
        """Drop what the table has already."""
        assert self.chain.head is not None
        behind = self.chain.head.to_offset
        self.buffer = [offset for offset in self.buffer if offset >= behind]
        self.position = max(self.position, behind)

    def commit(self) -> None:
        head = self.chain.head
        if head is None or self.world.owner is not self:  # all others are fenced by their generation
            return
        # What lies between the head and the position is nothing that could be landed.
        offset = head.to_offset if self.buffer else self.position
        self.world.committed = CommittedOffset(offset, Note.of(head).to_metadata())


def by_reading_back(owner: Owner) -> Outcome:
    """What has become of a try: what the table has."""
    return owner.chain.settle(owner.world.table.read(owner.chain.head)).outcome


def by_what_was_told(owner: Owner) -> Outcome:
    """The bug of taking a call that did not raise for a landing."""
    if owner.told is None:
        return by_reading_back(owner)
    link = next(iter(owner.chain._tried.values()))
    owner.chain.settle([*([owner.chain.head] if owner.chain.head else []), link])
    return Outcome.LANDED


@attrs.define(eq=False)
class World:
    table: Table = attrs.field(factory=Table)
    find: Callable[[Owner], Outcome] = by_reading_back
    end: int = 0
    """Of the log."""
    first_offset: int = 0
    committed: CommittedOffset | None = None
    owner: Owner | None = None
    zombies: list[Owner] = attrs.field(factory=list)
    pending: list[Pending] = attrs.field(factory=list)
    attempts: count[int] = attrs.field(factory=lambda: count(1))

    def take_over(self) -> None:
        """A rebalance: somebody else owns the partition, and who did may not know it yet. Raises ChainError."""
        if self.owner is not None:
            self.zombies.append(self.owner)
        self.owner = None
        head = self.table.links[-1] if self.table.links else None
        found = begin(KEY, ORIGIN, head, self.committed, Log(start=0, end=self.end))
        offset = self.first_offset if found.offset is None else found.offset
        self.owner = Owner(self, Chain(KEY, ORIGIN, head), offset)

    def crash(self, which: int) -> None:
        """An owner, or zombie, is gone; what it has sent is still on its way."""
        everybody = [*self.zombies, self.owner]
        gone = everybody[which % len(everybody)]
        if gone is self.owner:
            self.owner = None
        else:
            self.zombies.remove(gone)  # type: ignore[arg-type]

    def arrive(self, which: int, answered: bool) -> None:
        """A write that is on its way comes to the table; whoever sent it may hear nothing of it."""
        if self.pending:
            write = self.pending.pop(which % len(self.pending))
            won = self.table.append(write.link, write.rows)
            if answered and write.link.attempt in write.owner.chain._tried:
                write.owner.told = won

    def restore(self, version: int) -> None:
        """All members are stopped, and the table is put back to an older version."""
        self.owner, self.zombies, self.pending = None, [], []
        del self.table.links[version:], self.table.rows[version:]

    def finish(self) -> None:
        """Let the last owner land what is left, with nobody in its way. Raises ChainError."""
        self.pending.clear()
        self.take_over()
        assert self.owner is not None
        for _ in range(2):
            self.owner.read(self.end)
            self.owner.propose(self.end)
            while self.pending:
                self.arrive(0, answered=True)
            self.owner.settle()
            self.owner.commit()

    def check(self) -> None:
        """Each record that a link covers is in the table once, whatever has happened."""
        landed = Counter(offset for rows in self.table.rows for offset in rows)
        assert not (twice := {offset: times for offset, times in landed.items() if times > 1}), f"landed twice: {twice}"
        if self.table.links:
            covered = range(self.table.links[0].from_offset, self.table.links[-1].to_offset)
            missing = {offset for offset in covered if is_shown(offset)} - landed.keys()
            assert not missing, f"covered and not landed: {sorted(missing)}"
            assert landed.keys() <= set(covered), "landed and not covered"
