"""The outcome of a session, and the notices that change it while no session runs. Pure."""

from __future__ import annotations

import math

import attrs

from sarameya.group.membership.notices import CloseWanted, NewAssignment, Notice
from sarameya.group.session_machine.messages import Event
from sarameya.protocol.membership.messages import Fail, MembershipLost, PrepareRebalance


@attrs.define(slots=True)
class SessionOutcome:
    """The outcome of a session, or of the time between two sessions.

    Attributes:
        reason: The first reason for the end.
        deadline: The time by which the member must have rejoined or left; `math.inf` if no session was running.
        failures: Exceptions of the handler, and errors of calls that missed the deadline.
        lost: The membership is over; no mark can be committed any more.
        closing: The group is being closed.
        rebalanced: A rebalance was the first reason for the end.
        fatal: The error that ended the membership.
        next: An assignment that arrived while the session ended: the next session starts with it.
    """

    reason: str = ""
    deadline: float = math.inf
    failures: list[Exception] = attrs.field(factory=list)
    lost: bool = False
    closing: bool = False
    rebalanced: bool = False
    fatal: Exception | None = None
    next: NewAssignment | None = None

    def take(self, notice: Event | Notice) -> None:
        """Add a notice, so that nobody has to receive it again. Other events change nothing."""
        match notice:
            case NewAssignment():
                self.next = notice
            case PrepareRebalance() | MembershipLost():
                self.next = None
            case Fail(error=error):
                self.fatal, self.reason = error, self.reason or str(error)
            case CloseWanted(reason=reason):
                self.closing, self.reason = True, self.reason or reason

    @property
    def is_final(self) -> bool:
        """True if no session follows: the group is being closed, or something has failed."""
        return self.closing or bool(self.all_failures)

    @property
    def all_failures(self) -> list[Exception]:
        """The error that ended the membership, if there is one, followed by the other failures."""
        return [self.fatal, *self.failures] if self.fatal is not None else self.failures

    def text(self, group: str) -> str:
        """Return the message for the exception group of the failures."""
        return f"group {group!r}: {self.reason}"

    def raise_failures(self, group: str) -> None:
        """Raise what `consume()` raises after this outcome, if anything has failed.

        Raises:
            Exception: The error that ended the membership, if the handler has not failed.
            ExceptionGroup: All failures, otherwise.
        """
        if self.fatal is not None and not self.failures:
            raise self.fatal
        if self.failures:
            raise ExceptionGroup(self.text(group), self.all_failures)
