"""One owner's tries to append the next link of a chain, and what came of each. Pure.

    READY ──propose──► TRYING ──settle──► READY
                         ▲                  │  (nobody has appended it: the same number again)
                         └─────propose──────┘

Whatever a table says about a try (that it succeeded, that it failed, nothing), what counts is who is found to have
appended the link. An attempt that was not found may still come to be: it is remembered, and if it wins, it was ours.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum, auto

import attrs

from sarameya_handlers.landing.errors import BrokenChainError, RewoundTableError
from sarameya_handlers.landing.links import UNKNOWN_EPOCH, ChainKey, Kind, Link, Origin, check_chain
from sarameya_handlers.landing.starting import check_lost_start


class State(Enum):
    """Where an owner stands."""

    READY = auto()
    """The head is known; the next link may be tried."""
    TRYING = auto()
    """A try is out, or nobody knows what has become of it."""


class Outcome(Enum):
    """What has become of the link that was tried."""

    LANDED = auto()
    """It is ours."""
    LOST = auto()
    """It is somebody else's."""
    ABSENT = auto()
    """It is not there, yet."""


@attrs.frozen(slots=True)
class Settled:
    """`link` is what was found in the place of the one that was tried; None where nothing was."""

    outcome: Outcome
    link: Link | None


@attrs.define(slots=True, eq=False)
class Chain:
    """What one owner of a partition knows of its chain.

    `head` is its last link, None where there is none; then the first one begins where the owner has begun to read.
    """

    key: ChainKey
    origin: Origin
    head: Link | None = None
    state: State = State.READY
    _tried: dict[str, Link] = attrs.field(factory=dict)
    """Tries of the next link that nobody has seen fail for good, by their attempts."""

    @property
    def next_number(self) -> int:
        return self.head.number + 1 if self.head else 1

    def propose(
        self,
        from_offset: int,
        to_offset: int,
        *,
        attempt: str,
        rows: int = 0,
        leader_epoch: int = UNKNOWN_EPOCH,
        kind: Kind = Kind.RECORDS,
        reason: str = "",
        tried_at: int = 0,
    ) -> Link:
        """The next link, to be appended to the table together with its rows.

        `from_offset` says where the first link of all begins; any other begins where the head ends. Call `settle`
        with what the table has afterwards, however the append ended.
        """
        assert self.state is State.READY, "one try at a time, and each is settled"
        assert attempt not in self._tried, "an attempt is unique"
        link = Link(
            key=self.key,
            number=self.next_number,
            from_offset=self.head.to_offset if self.head else from_offset,
            to_offset=to_offset,
            rows=rows,
            attempt=attempt,
            origin=self._begun(from_offset),
            # Its head's says nothing of where a gap ends: others may have led since.
            leader_epoch=leader_epoch if kind is Kind.GAP else self._known_epoch(leader_epoch),
            kind=kind,
            reason=reason,
            tried_at=tried_at,
        )
        self._tried[attempt] = link
        self.state = State.TRYING
        return link

    def settle(self, found: Sequence[Link]) -> Settled:
        """Find out what has become of the last try. Afterwards `head` is the newest of the links that were found.

        Args:
            found: All links that the table has, from our head's number on, in order.

        Raises:
            RewoundTableError: Our head is not among them any more.
            BrokenChainError: They are no chain.
            ForeignChainError, MovedCommitError: Somebody else has begun the chain, of other records, or at an offset
                from which this owner must not go on. Nothing of it may be committed.
        """
        check_chain(found)
        if self.head is not None:
            if not found or (found[0].number, found[0].attempt) != (self.head.number, self.head.attempt):
                there = f"there is {found[0]} by attempt {found[0].attempt}" if found else "there is none"
                raise RewoundTableError(
                    f"{self.head} by attempt {self.head.attempt} is not in the table any more, {there}: "
                    "it was restored or written anew while it was landed in"
                )
            found = found[1:]
        if not found:
            self.state = State.READY
            return Settled(Outcome.ABSENT, None)
        if found[0].number != self.next_number:
            raise BrokenChainError(f"{found[0]} is the first in the table, and link {self.next_number} is missing")
        ours = self._tried.get(found[0].attempt)
        if self.head is None and ours is None:
            check_lost_start(found, self.origin, min(link.from_offset for link in self._tried.values()))
        self.head = found[-1]
        self._tried = {}
        self.state = State.READY
        return Settled(Outcome.LOST if ours is None else Outcome.LANDED, found[0])

    def _begun(self, from_offset: int) -> Origin:
        """Return our origin, and where the chain begins, as far as its links say it."""
        return attrs.evolve(self.origin, begin=self.head.origin.begin if self.head else from_offset)

    def _known_epoch(self, leader_epoch: int) -> int:
        """A link without records of its own says what its head said."""
        return self.head.leader_epoch if self.head and leader_epoch == UNKNOWN_EPOCH else leader_epoch
