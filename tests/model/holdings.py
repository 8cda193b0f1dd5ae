"""Partitions that a client owns: assigned, drained, committed, revoked, lost. Stands for `group/session_machine`."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import attrs

from sarameya.model import Assignment, TopicPartition, by_topic, topic_partitions
from sarameya.protocol.membership.messages import (
    Assigned,
    Event,
    JoinWanted,
    LeaveWanted,
    MembershipLost,
    PrepareRebalance,
)
from sarameya.protocol.rebalance import diff
from tests.model.leading import Leading
from tests.model.offsets import Offsets
from tests.model.surroundings import Surroundings

Do = Callable[[Callable[[], None]], None]


@attrs.define(slots=True)
class Ending:
    """Something that is owned is being given up: drained, then committed."""

    partitions: frozenset[TopicPartition]
    is_drained: bool = False


class Holdings:
    """The partitions of one client, from what the machine says of them to what it is told."""

    def __init__(
        self,
        world: Surroundings,
        offsets: Offsets,
        leading: Leading,
        drain: float,
        is_cooperative: bool,
        post: Callable[[Event], None],
        do: Do,
    ) -> None:
        """`drain`: seconds that claims take to finish. `post` tells the machine something, `do` runs something in the
        client."""
        self.drain = drain
        self.is_cooperative = is_cooperative
        self.is_idle = False
        """There is nothing to read, and so nothing to commit."""
        self.ending: Ending | None = None
        self.is_closing = False
        self.claimed: frozenset[TopicPartition] = frozenset()
        """What the last join said is kept."""
        self.losses = 0
        self._scheduler = world.scheduler
        self._timing = world.timing
        self._offsets = offsets
        self._owned = offsets.positions
        self._leading = leading
        self._next: Assigned | None = None
        self._post = post
        self._do = do
        offsets.committed = self._check_given_up
        offsets.is_urgent = lambda: self.ending is not None

    def take_note(self, notice: Assigned | PrepareRebalance | MembershipLost, topics: tuple[str, ...]) -> None:
        """Do what the machine says. `topics` are those subscribed to now."""
        self._next = notice if isinstance(notice, Assigned) else None
        match notice:
            case Assigned() if self.ending is None:
                self._take_over()
            case PrepareRebalance(deadline=deadline) if self.ending is not None:
                self._give_up_by(self.ending, deadline)
            case PrepareRebalance(deadline=deadline) if not self.is_closing:
                gone = [tp for tp in self._owned if tp.topic not in topics or not self.is_cooperative]
                self._give_up(gone, deadline, self.drain if gone else 0.0)
            case MembershipLost():
                self._lose()

    def end(self) -> None:
        """Give up everything, and join again: a claim has returned."""
        if self._owned and self.ending is None and not self.is_closing:
            self._give_up(self._owned, self._scheduler.now + self._timing.rebalance_timeout, self.drain)

    def close(self) -> None:
        """Give up everything, and leave."""
        if not self.is_closing:
            self.is_closing = True
            self._give_up(self._owned, self._scheduler.now + self._timing.close_timeout, self.drain)

    def fail(self) -> None:
        """The membership has failed: stop, commit nothing, leave."""
        self.is_closing, self.ending = True, None
        self._owned.clear()
        self._post(LeaveWanted("failed"))

    def work(self) -> None:
        """Read on in all that is not drained, and commit."""
        ending = self.ending
        if not self.is_idle:
            self._offsets.read_on(but=ending.partitions if ending is not None and ending.is_drained else ())
        self._offsets.commit()

    # -- what is assigned, and what is lost ----------------------------------------------------------

    def _take_over(self) -> None:
        """Begin with what is new, and give up what is no longer assigned."""
        assert self._next is not None
        assigned, self._next = self._next, None
        assignment = self._leading.decode(assigned.generation, assigned.assignment)
        assert self.is_cooperative or not self._owned, f"assigned while {sorted(self._owned)} is owned"
        change = diff(self._owned.keys() | self.claimed, topic_partitions(assignment))
        revoked = [partition for partition in change.revoked if partition in self._owned]
        self._offsets.generation = assigned.generation
        self._owned.update({tp: self._owned.get(tp) for tp in topic_partitions(assignment)})
        self._offsets.fetch()
        if change.revoked:
            # Also what the join claimed and has been given up since: until we say so, nobody else is assigned it.
            deadline = self._scheduler.now + self._timing.rebalance_timeout
            self._give_up(revoked, deadline, self.drain if revoked else 0.0)

    def _lose(self) -> None:
        """All is lost: what still runs is no longer an owner, but it is waited for."""
        self.losses += 1
        ran = bool(self._owned)
        self._owned.clear()
        if self.ending is None and not self.is_closing:
            deadline = self._scheduler.now + self._timing.rebalance_timeout
            self._give_up((), deadline, self.drain if ran else 0.0)

    # -- what is given up ----------------------------------------------------------------------------

    def _give_up(self, partitions: Iterable[TopicPartition], deadline: float, drain: float) -> None:
        """Drain and commit `partitions`; then join again, or leave."""
        ending = self.ending = Ending(frozenset(partitions))

        def drained() -> None:
            if self.ending is ending:
                ending.is_drained = True
                self._offsets.commit()
                self._check_given_up()

        self._scheduler.after(drain, lambda: self._do(drained))
        self._give_up_by(ending, deadline)

    def _give_up_by(self, ending: Ending, deadline: float) -> None:
        def late() -> None:
            if self.ending is ending:
                self._given_up()

        at = max(deadline, self._scheduler.now + self._timing.least)
        self._scheduler.at(at, lambda: self._do(late))

    def _check_given_up(self) -> None:
        ending = self.ending
        if ending is not None and ending.is_drained and not self._offsets.dirty(ending.partitions):
            self._given_up()

    def _given_up(self) -> None:
        assert self.ending is not None
        partitions, self.ending = self.ending.partitions, None
        for partition in partitions:
            self._owned.pop(partition, None)
        if self.is_closing:
            self._owned.clear()
            self._post(LeaveWanted("closed"))
        elif self._next is not None:
            self._take_over()
        else:
            self._post(JoinWanted("rejoins", self._assignment()))

    def _assignment(self) -> Assignment:
        return by_topic(sorted(self._owned))
