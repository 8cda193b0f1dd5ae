"""A client's owned partitions: assigned, drained, committed, revoked, lost. A stand-in for `group/session_machine`."""

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
from tests.model.environment import Surroundings
from tests.model.leader import Leader
from tests.model.offsets import Offsets

Do = Callable[[Callable[[], None]], None]


@attrs.define(slots=True)
class Revocation:
    """Partitions that are being revoked: drained first, then committed."""

    partitions: frozenset[TopicPartition]
    is_drained: bool = False


class ClientSession:
    """The owned partitions of one client: it handles the machine's notices, and reports revocations to the machine."""

    def __init__(
        self,
        world: Surroundings,
        offsets: Offsets,
        leader: Leader,
        drain: float,
        is_cooperative: bool,
        post: Callable[[Event], None],
        do: Do,
    ) -> None:
        """Create a session without partitions.

        Args:
            world: the scheduler and the timing.
            offsets: positions and commits of the owned partitions.
            leader: decodes assignments.
            drain: seconds that claims take to drain.
            is_cooperative: all assignors are cooperative.
            post: passes an event to the machine.
            do: runs an action in the client's process.
        """
        self.drain = drain
        self.is_cooperative = is_cooperative
        self.is_idle = False
        """True if there is nothing to read, and so nothing to commit."""
        self.revocation: Revocation | None = None
        self.is_closing = False
        self.claimed: frozenset[TopicPartition] = frozenset()
        """The owned partitions that the last join named."""
        self.losses = 0
        self._scheduler = world.scheduler
        self._timing = world.timing
        self._offsets = offsets
        self._owned = offsets.positions
        self._leader = leader
        self._next: Assigned | None = None
        self._post = post
        self._do = do
        offsets.committed = self._check_revoked
        offsets.is_urgent = lambda: self.revocation is not None

    def handle_notice(self, notice: Assigned | PrepareRebalance | MembershipLost, topics: tuple[str, ...]) -> None:
        """Handle a notice of the machine. `topics` are the current subscription."""
        self._next = notice if isinstance(notice, Assigned) else None
        match notice:
            case Assigned() if self.revocation is None:
                self._apply_assignment()
            case PrepareRebalance(deadline=deadline) if self.revocation is not None:
                self._set_deadline(self.revocation, deadline)
            case PrepareRebalance(deadline=deadline) if not self.is_closing:
                revoked = [tp for tp in self._owned if tp.topic not in topics or not self.is_cooperative]
                self._revoke(revoked, deadline, self.drain if revoked else 0.0)
            case MembershipLost():
                self._lose()

    def end(self) -> None:
        """Revoke everything, and join again, since a claim has returned."""
        if self._owned and self.revocation is None and not self.is_closing:
            self._revoke(self._owned, self._scheduler.now + self._timing.rebalance_timeout, self.drain)

    def close(self) -> None:
        """Revoke everything, and leave."""
        if not self.is_closing:
            self.is_closing = True
            self._revoke(self._owned, self._scheduler.now + self._timing.close_timeout, self.drain)

    def fail(self) -> None:
        """Stop without a commit, and leave, since the membership has failed."""
        self.is_closing, self.revocation = True, None
        self._owned.clear()
        self._post(LeaveWanted("failed"))

    def work(self) -> None:
        """Read one more message of each partition that is not drained, and commit."""
        revocation = self.revocation
        if not self.is_idle:
            self._offsets.read_on(but=revocation.partitions if revocation is not None and revocation.is_drained else ())
        self._offsets.commit()

    # -- assignment and loss -------------------------------------------------------------------------

    def _apply_assignment(self) -> None:
        """Start the new partitions, and revoke those that are no longer assigned."""
        assert self._next is not None
        assigned, self._next = self._next, None
        assignment = self._leader.decode(assigned.generation, assigned.assignment)
        assert self.is_cooperative or not self._owned, f"assigned while {sorted(self._owned)} is owned"
        missing = (self._owned.keys() | self.claimed).difference(topic_partitions(assignment))
        revoked = sorted(missing & self._owned.keys())
        self._offsets.generation = assigned.generation
        self._owned.update({tp: self._owned.get(tp) for tp in topic_partitions(assignment)})
        self._offsets.fetch()
        if missing:
            # Also if only partitions are concerned that the join named and that have been revoked since: the group
            # assigns them to another member only after we have joined again.
            deadline = self._scheduler.now + self._timing.rebalance_timeout
            self._revoke(revoked, deadline, self.drain if revoked else 0.0)

    def _lose(self) -> None:
        """Drop all partitions. Claims that still run own nothing any more, but the session waits for them."""
        self.losses += 1
        ran = bool(self._owned)
        self._owned.clear()
        if self.revocation is None and not self.is_closing:
            deadline = self._scheduler.now + self._timing.rebalance_timeout
            self._revoke((), deadline, self.drain if ran else 0.0)

    # -- revocation ----------------------------------------------------------------------------------

    def _revoke(self, partitions: Iterable[TopicPartition], deadline: float, drain: float) -> None:
        """Drain and commit `partitions`; then join again, or leave."""
        revocation = self.revocation = Revocation(frozenset(partitions))

        def drained() -> None:
            if self.revocation is revocation:
                revocation.is_drained = True
                self._offsets.commit()
                self._check_revoked()

        self._scheduler.after(drain, lambda: self._do(drained))
        self._set_deadline(revocation, deadline)

    def _set_deadline(self, revocation: Revocation, deadline: float) -> None:
        """End the revocation at the deadline, even if it is not complete."""

        def late() -> None:
            if self.revocation is revocation:
                self._finish_revocation()

        at = max(deadline, self._scheduler.now + self._timing.least)
        self._scheduler.at(at, lambda: self._do(late))

    def _check_revoked(self) -> None:
        """Finish the revocation once its partitions are drained and committed."""
        revocation = self.revocation
        if revocation is not None and revocation.is_drained and not self._offsets.dirty(revocation.partitions):
            self._finish_revocation()

    def _finish_revocation(self) -> None:
        assert self.revocation is not None
        partitions, self.revocation = self.revocation.partitions, None
        for partition in partitions:
            self._owned.pop(partition, None)
        if self.is_closing:
            self._owned.clear()
            self._post(LeaveWanted("closed"))
        elif self._next is not None:
            self._apply_assignment()
        else:
            self._post(JoinWanted("rejoins", self._assignment()))

    def _assignment(self) -> Assignment:
        return by_topic(sorted(self._owned))
