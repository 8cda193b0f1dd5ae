"""The deadline of a session, and the share of the time that each part has. Pure.

One object for each session. The state machine moves it; `shutdown.py` turns it into cancel scopes. Nobody else has a
deadline. Kept by `tests/model/test_session_model.py`:

- While something is being revoked the deadline only comes nearer. It is lifted when all of that is done.
- However late a rebalance is announced, what has to be done has `LEAST_SECONDS`.
- A handler's call gets 80 % of the time that is left, since a commit, or a cleanup, follows it.
- A deadline may be over when it is announced, since nothing is received while the coordinator is away. `LEAST_SECONDS`
  keeps healthy tasks from being reported as stuck. Test:
  `tests/group/test_overlapping_endings.py::test_session_ending_before_a_deadline_has_the_least_time`.
"""

from __future__ import annotations

import math

LEAST_SECONDS = 1.0
"""The least time for ending in order. A deadline may be over when it is announced."""

UNWIND_SECONDS = 0.5
"""The time a task may take to unwind once it is cancelled, before it counts as stuck."""

_SHARE = 0.8
"""The share of the time until the deadline for a part that others follow."""


class RevocationDeadline:
    """The deadline of a session; `math.inf` where nothing is limited.

    Args:
        claim_grace: Seconds that a task of the handler may go on once it is stopped.

    Attributes:
        at: The end of the time for what is being revoked; of a session that ends, for all of it.
        grace_ends: The end of the time for `setup` and `partitions_assigned`.
        session_ends: The end of the time for the whole session, once it ends.
    """

    def __init__(self, claim_grace: float) -> None:
        self.at = self.grace_ends = self.session_ends = math.inf
        self._claim_grace = claim_grace

    @property
    def stuck_at(self) -> float:
        """The time from which a task that still runs counts as stuck."""
        return self.at + UNWIND_SECONDS

    def hasten(self, deadline: float, now: float) -> float:
        """Bring the deadline nearer. Return the end of the grace of readers that stop now."""
        grace_ends = now + min(self._claim_grace, most_of(deadline, now) - now)
        self.at = min(self.at, in_order(deadline, now))
        self.grace_ends = min(self.grace_ends, grace_ends)
        return grace_ends

    def lift(self) -> None:
        """Remove all limits: everything that had to be revoked has been."""
        self.at = self.grace_ends = math.inf

    def end_session(self, wanted: float, now: float, *, is_first: bool) -> float:
        """Let the session end by `wanted`, or earlier where it is limited already.

        Return the end of the readers' grace. Only the first call may move a revocation's deadline back, by at most
        `LEAST_SECONDS`.
        """
        self.session_ends = min(self.session_ends, in_order(min(wanted, self.at), now))
        if is_first:
            self.at = self.session_ends
        return self.hasten(self.session_ends, now)

    def shut_down(self, now: float) -> None:
        """Give the last calls and the last commit `LEAST_SECONDS`, though the tasks ended after the deadline."""
        self.at = self.session_ends = in_order(self.session_ends, now)


def in_order(deadline: float, now: float) -> float:
    """Return the deadline, or `LEAST_SECONDS` from now if that is later."""
    return max(deadline, now + LEAST_SECONDS)


def most_of(deadline: float, now: float) -> float:
    """Return the end of the time for a part that others must follow before `deadline`."""
    return now + _SHARE * max(deadline - now, LEAST_SECONDS)
