"""Attempts of one owner to append the next link of a chain, and the outcome of each. Pure.

    READY ──propose──► TRYING ──settle──► READY
                         ▲                  │  (nobody has appended it: the same number again)
                         └─────propose──────┘

A table's response to an attempt (success, failure, or none) does not decide its outcome. The link found in the table
afterwards does. An attempt that is not found may still succeed later, so it is remembered: if it wins, it is ours.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum, auto

import attrs

from sarameya_handlers.landing.chain_start import check_chain_of_another_owner
from sarameya_handlers.landing.errors import BrokenChainError, RewoundTableError
from sarameya_handlers.landing.links import UNKNOWN_COUNT, UNKNOWN_EPOCH, ChainKey, Kind, Link, Origin, check_chain


class AttemptState(Enum):
    """State of an owner's attempts."""

    READY = auto()
    """The head is known; the next link may be attempted."""
    TRYING = auto()
    """An attempt is running, or its outcome is unknown."""


class Outcome(Enum):
    """Outcome of an attempt to append a link."""

    LANDED = auto()
    """The link in the table is ours."""
    LOST = auto()
    """The link in the table is another owner's."""
    ABSENT = auto()
    """The table has no such link yet."""


@attrs.frozen(slots=True)
class Settled:
    """Outcome of the last attempt, and the link that the table holds under its number."""

    outcome: Outcome
    link: Link | None
    """None if the table holds no link of this number."""


@attrs.define(slots=True, eq=False)
class Chain:
    """State of one chain as one owner of the partition knows it.

    Attributes:
        head: The last link; None for an empty chain, whose first link starts at the owner's start offset.
    """

    key: ChainKey
    origin: Origin
    head: Link | None = None
    state: AttemptState = AttemptState.READY
    _tried: dict[str, Link] = attrs.field(factory=dict)
    """Attempts at the next link that may still succeed, by attempt id."""

    @property
    def next_number(self) -> int:
        """Number of the next link."""
        return self.head.number + 1 if self.head else 1

    def propose(
        self,
        from_offset: int,
        to_offset: int,
        *,
        attempt: str,
        rows: int = 0,
        records: int = UNKNOWN_COUNT,
        dead_letters: int = 0,
        is_transformed: bool = False,
        leader_epoch: int = UNKNOWN_EPOCH,
        kind: Kind = Kind.RECORDS,
        reason: str = "",
        tried_at: int = 0,
    ) -> Link:
        """Return the next link, to be appended to the table together with its rows.

        Call `settle` with the table's links afterwards, however the append ended.

        Args:
            from_offset: Start of the chain's first link. Any later link starts where the head ends.
            to_offset: End of the link, exclusive.
            attempt: Unique id of this attempt.
            rows: Number of rows that the link adds to the table.
            records: Number of records of the range.
            dead_letters: Number of dead letters among them.
            is_transformed: Whether a transform makes rows of the others.
            leader_epoch: Leader epoch of the last record (KIP-320).
            kind: Records, a gap, or a restated head.
            reason: Reason of a gap.
            tried_at: Wall clock in milliseconds since 1970.
        """
        assert self.state is AttemptState.READY, "one attempt at a time, and each is settled"
        assert attempt not in self._tried, "an attempt is unique"
        link = Link(
            key=self.key,
            number=self.next_number,
            from_offset=self.head.to_offset if self.head else from_offset,
            to_offset=to_offset,
            rows=rows,
            records=records,
            dead_letters=dead_letters,
            is_transformed=is_transformed,
            attempt=attempt,
            origin=self._origin_from(from_offset),
            # A gap must not inherit the head's epoch: leaders may have changed within the gap.
            leader_epoch=leader_epoch if kind is Kind.GAP else self._known_epoch(leader_epoch),
            kind=kind,
            reason=reason,
            tried_at=tried_at,
        )
        self._tried[attempt] = link
        self.state = AttemptState.TRYING
        return link

    def settle(self, found: Sequence[Link]) -> Settled:
        """Determine the outcome of the last attempt. Afterwards `head` is the newest link found.

        Args:
            found: All links of the table from our head's number on, in order.

        Raises:
            RewoundTableError: Our head is no longer among them.
            BrokenChainError: They do not form a chain.
            ForeignChainError: Another owner started the chain with records of another origin. Nothing may be
                committed.
            MovedCommitError: Another owner started the chain at an offset from which this owner must not continue.
                Nothing may be committed.
        """
        check_chain(found)
        if self.head is not None:
            if not found or (found[0].number, found[0].attempt) != (self.head.number, self.head.attempt):
                there = f"there is {found[0]} by attempt {found[0].attempt}" if found else "there is none"
                raise RewoundTableError(
                    f"{self.head} by attempt {self.head.attempt} is not in the table any more, {there}: "
                    "the table was restored or overwritten while members landed. Restore the newer version, or rewind "
                    "the group (`sarameya rewind TABLE --to-head --execute`)."
                )
            found = found[1:]
        if not found:
            self.state = AttemptState.READY
            return Settled(Outcome.ABSENT, None)
        if found[0].number != self.next_number:
            raise BrokenChainError(
                f"link {self.next_number} is missing in the table: the first one is {found[0]}. Another program has "
                "removed it; restore an older version of the table, and rewind the group (`sarameya rewind`)."
            )
        ours = self._tried.get(found[0].attempt)
        if self.head is None and ours is None:
            check_chain_of_another_owner(found, self.origin, min(link.from_offset for link in self._tried.values()))
        self.head = found[-1]
        self._tried = {}
        self.state = AttemptState.READY
        return Settled(Outcome.LOST if ours is None else Outcome.LANDED, found[0])

    def _origin_from(self, from_offset: int) -> Origin:
        """Return our origin with the offset at which the chain starts; the head has it, if there is one."""
        return attrs.evolve(self.origin, begin=self.head.origin.begin if self.head else from_offset)

    def _known_epoch(self, leader_epoch: int) -> int:
        """Return the given epoch; a link without records of its own inherits the head's."""
        return self.head.leader_epoch if self.head and leader_epoch == UNKNOWN_EPOCH else leader_epoch
