"""The deadline for revoking partitions and for ending a session, and the part of the time for each step. Pure.

Each session has one `RevocationDeadline`, which only the state machine moves. `SessionLimits` (calls and commits) and
`ReaderTask` (readers) hold cancel scopes made from it. At the end of the session, `SessionOutcome.deadline` passes it
on to the leave. Rules, checked by `tests/model/test_session_model.py`:

- While partitions are being revoked, the deadline can only be moved to an earlier time. It is removed once they are
  revoked.
- Even if a rebalance is announced late, each step has at least `LEAST_SECONDS`.
- A call of the handler gets 80 % of the remaining time, since a commit, or `cleanup`, follows it.
- A deadline may have passed already when it is announced, since no response arrives while the coordinator is down.
  `LEAST_SECONDS` keeps healthy tasks from being reported as stuck. Test:
  `tests/group/test_overlapping_session_ends.py::test_session_ending_before_a_deadline_has_a_minimum_time`.
"""

from __future__ import annotations

import math

LEAST_SECONDS = 1.0
"""Minimum of seconds for a step, even if the announced deadline has passed already."""

UNWIND_SECONDS = 0.5
"""Seconds that a cancelled task may take to end before it counts as stuck."""

_SHARE = 0.8
"""Part of the remaining time for a step that other steps follow."""


class RevocationDeadline:
    """Deadline for revoking partitions and for ending a session. A time of `math.inf` means no limit.

    Args:
        claim_grace: Seconds that a task of the handler may continue once it is stopped.

    Attributes:
        at: Time by which partitions must be revoked or, once the session is ending, by which it must end.
        grace_ends: Time by which `setup` and `partitions_assigned` must return.
        session_ends: Time by which the session must end; `math.inf` until it is ending.
    """

    def __init__(self, claim_grace: float) -> None:
        self.at = self.grace_ends = self.session_ends = math.inf
        self._claim_grace = claim_grace

    @property
    def stuck_at(self) -> float:
        """Time from which a task that still runs counts as stuck."""
        return self.at + UNWIND_SECONDS

    def hasten(self, deadline: float, now: float) -> float:
        """Move the deadline to an earlier time, if `deadline` is earlier.

        Returns:
            The time by which readers that are stopped now must end.
        """
        grace_ends = now + min(self._claim_grace, step_deadline(deadline, now) - now)
        self.at = min(self.at, with_least_time(deadline, now))
        self.grace_ends = min(self.grace_ends, grace_ends)
        return grace_ends

    def lift(self) -> None:
        """Remove all limits: no partition has to be revoked any more."""
        self.at = self.grace_ends = math.inf

    def end_session(self, wanted: float, now: float, *, is_first: bool) -> float:
        """Set the time by which the session must end.

        Args:
            wanted: The requested time. An earlier limit stays.
            now: Present time.
            is_first: True for the first call. Only that call may move an earlier revocation deadline to a later time,
                by at most `LEAST_SECONDS`.

        Returns:
            The time by which readers that are stopped now must end.
        """
        self.session_ends = min(self.session_ends, with_least_time(min(wanted, self.at), now))
        if is_first:
            self.at = self.session_ends
        return self.hasten(self.session_ends, now)

    def shut_down(self, now: float) -> None:
        """Give the last calls and the last commit at least `LEAST_SECONDS`, even if the tasks ended too late."""
        self.at = self.session_ends = with_least_time(self.session_ends, now)


def with_least_time(deadline: float, now: float) -> float:
    """Return the deadline, or `LEAST_SECONDS` from now if that is later."""
    return max(deadline, now + LEAST_SECONDS)


def step_deadline(deadline: float, now: float) -> float:
    """Return the deadline of a step that other steps follow before `deadline`."""
    return now + _SHARE * max(deadline - now, LEAST_SECONDS)
