"""The deadline of a session: by when what is being revoked must be done, and how much of the time each part has. Pure.

One object for each session. The state machine moves it; `shutdown.py` turns it into cancel scopes. Nobody else has a
deadline. Kept by `tests/model/test_session_model.py`:

- While something is being revoked the deadline only comes nearer. It is lifted when all of that is done.
- However late a rebalance is announced, what has to be done has `LEAST_SECONDS`.
- A handler's call gets 80 % of the time that is left, since a commit, or a cleanup, follows it.
"""

from __future__ import annotations

import math

LEAST_SECONDS = 1.0
"""What there is for ending in order, whatever the deadline: it may be over when it is announced."""

UNWIND_SECONDS = 0.5
"""How long a task may take to unwind once it is cancelled, before it counts as stuck."""

_SHARE = 0.8
"""Of the time until the deadline, what one part may have that others follow."""


class RevocationDeadline:
    """The deadline of one session; `math.inf` where nothing is limited.

    Args:
        claim_grace: Seconds that a task of the handler may go on once it is stopped.

    Attributes:
        at: By when what is being revoked must be done; of a session that ends, all of it.
        grace_ends: By when `setup` and `partitions_assigned` must have returned.
        session_ends: By when the session must have ended, once it ends.
    """

    def __init__(self, claim_grace: float) -> None:
        self.at = self.grace_ends = self.session_ends = math.inf
        self._claim_grace = claim_grace

    @property
    def stuck_at(self) -> float:
        """When a task that still runs counts as stuck."""
        return self.at + UNWIND_SECONDS

    def hasten(self, deadline: float, now: float) -> float:
        """Bring the deadline nearer. Return by when readers that stop now must have stopped."""
        grace_ends = now + min(self._claim_grace, most_of(deadline, now) - now)
        self.at = min(self.at, in_order(deadline, now))
        self.grace_ends = min(self.grace_ends, grace_ends)
        return grace_ends

    def lift(self) -> None:
        """Set no limit any more: all that had to be revoked has been."""
        self.at = self.grace_ends = math.inf

    def end_session(self, wanted: float, now: float, *, is_first: bool) -> float:
        """Let the session end by `wanted`, or earlier where it is limited already.

        Return by when readers must have stopped. Only the first call may move a revocation's deadline back, by at most
        `LEAST_SECONDS`.
        """
        self.session_ends = min(self.session_ends, in_order(min(wanted, self.at), now))
        if is_first:
            self.at = self.session_ends
        return self.hasten(self.session_ends, now)

    def shut_down(self, now: float) -> None:
        """All tasks have ended. What follows has `LEAST_SECONDS`, too, where they ended after the deadline."""
        self.at = self.session_ends = in_order(self.session_ends, now)


def in_order(deadline: float, now: float) -> float:
    """Return the deadline, or `LEAST_SECONDS` from now if that is later."""
    return max(deadline, now + LEAST_SECONDS)


def most_of(deadline: float, now: float) -> float:
    """Return until when something may go on that other things have to follow before `deadline`."""
    return now + _SHARE * max(deadline - now, LEAST_SECONDS)
