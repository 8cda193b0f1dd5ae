"""The loop of a member: join, run a session, rejoin, until the group is closed or fails; then leave.

`Sessions` owns the running session. Between sessions it handles the notices of the member, and decides how long to wait
before the next session. During a session `session_machine` decides.
"""

from __future__ import annotations

from contextlib import suppress

import trio

from sarameya.group.delivery.pauses import Pauses
from sarameya.group.handler import ConsumerGroupHandler
from sarameya.group.membership.member import Member
from sarameya.group.membership.notices import CloseWanted, NewAssignment, SubscriptionChanged
from sarameya.group.runtime import Runtime
from sarameya.group.session_machine.outcome import SessionOutcome
from sarameya.group.session_machine.runner import SessionRunner
from sarameya.group.source import source_from_brokers
from sarameya.observe import LeaveFailed, Retrying
from sarameya.protocol.membership.messages import (
    Fail,
    JoinWanted,
    LeaveWanted,
    Left,
    MembershipLost,
    PrepareRebalance,
)
from sarameya.status import PartitionStatus

_DROPPED = "the subscription was dropped"
_UNANSWERED = "the coordinator has not answered in time"


class Sessions:
    """The sessions of one member."""

    def __init__(self, member: Member, handler: ConsumerGroupHandler, runtime: Runtime, pauses: Pauses) -> None:
        self._member = member
        self._handler = handler
        self._runtime = runtime
        self._config = runtime.config
        self._pauses = pauses
        self._runner: SessionRunner | None = None

    def status(self) -> tuple[PartitionStatus, ...]:
        """Return the status of the running session's partitions."""
        return () if self._runner is None else self._runner.status()

    async def run(self) -> SessionOutcome:
        """Run one session after the other. Return the outcome of the last session."""
        member, short = self._member, 0
        if member.wanted is None and (last := await self._without_subscription(_DROPPED)).is_final:
            return last
        member.post(JoinWanted("the member starts"))
        # Read here between two sessions. While a session runs, its `SessionRunner` reads the channel instead.
        async for notice in member.notices:
            match notice:
                case NewAssignment():
                    first: NewAssignment | None = notice
                    while first is not None:
                        began = trio.current_time()
                        outcome = await self._run_session(first)
                        if outcome.is_final:
                            return outcome
                        seconds = trio.current_time() - began
                        short = short + 1 if seconds < self._config.heartbeat_interval and not outcome.rebalanced else 0
                        if (last := await self._between_sessions(short, seconds, outcome)).is_final:
                            return last
                        first = last.next
                    member.post(JoinWanted(outcome.reason))
                case PrepareRebalance(reason=reason) | MembershipLost(reason=reason):
                    member.post(JoinWanted(reason))  # no session runs, so nothing has to be revoked first
                case SubscriptionChanged() if member.wanted is None:
                    if (last := await self._without_subscription(_DROPPED)).is_final:
                        return last
                    member.post(JoinWanted("subscribed again"))
                case Fail() | CloseWanted():
                    last = SessionOutcome()
                    last.take(notice)
                    return last
        raise AssertionError("the membership ended without a notice")

    async def _run_session(self, first: NewAssignment) -> SessionOutcome:
        runtime = self._runtime
        runner = SessionRunner(first, self._member, self._handler, runtime, self._pauses, source_from_brokers(runtime))
        self._runner = runner
        try:
            return await runner.run()
        finally:
            self._runner = None

    async def _between_sessions(self, short: int, seconds: float, last: SessionOutcome) -> SessionOutcome:
        """Wait after several short sessions, and while no topic is subscribed to.

        Args:
            short: Number of short sessions in a row.
            seconds: Duration of the last session.
            last: Outcome of the last session.

        Returns:
            The outcome of the wait. Its `next` is the assignment of the next session.
        """
        outcome = SessionOutcome(next=last.next)
        if short > 1 and self._member.wanted is not None:
            # A handler that returns at once, again and again, must not cause a rebalance storm.
            delay = self._runtime.backoff.delay(short - 1)
            self._runtime.observer(Retrying("session", short, seconds, delay, last.reason, kind="session"))
            await self._pause(delay, outcome)
        if self._member.wanted is None and not outcome.is_final:
            return await self._without_subscription(last.reason)
        return outcome

    async def _without_subscription(self, reason: str) -> SessionOutcome:
        """Leave the group, and wait for a new subscription, or for the end of the membership."""
        member, outcome = self._member, SessionOutcome()
        member.post(LeaveWanted(reason))
        # The same limit for the coordinator's response as when the group is closed.
        with trio.move_on_after(self._config.close_timeout) as waiting:
            async for notice in member.notices:
                outcome.take(notice)
                if outcome.is_final or isinstance(notice, Left):
                    break
        if waiting.cancelled_caught:
            self._runtime.observer(LeaveFailed(self._runtime.group, _UNANSWERED))
        while member.wanted is None and not outcome.is_final:
            outcome.take(await member.notices.receive())
        outcome.next = None  # an assignment of a generation that the member has left
        return outcome

    async def _pause(self, seconds: float, outcome: SessionOutcome) -> None:
        """Wait until `seconds` have passed, the group rebalances or ends, or the subscription is dropped.

        The outcome takes all notices.
        """
        member = self._member
        with trio.move_on_after(seconds):
            async for notice in member.notices:
                outcome.take(notice)
                is_dropped = isinstance(notice, SubscriptionChanged) and member.wanted is None
                if outcome.is_final or is_dropped or isinstance(notice, PrepareRebalance):
                    break

    async def leave(self, reason: str) -> None:
        """Leave the group, and wait for the coordinator's response as long as the caller's scope allows."""
        member = self._member
        with suppress(trio.WouldBlock):
            while True:
                member.notices.receive_nowait()  # an earlier Fail is not about the leave
        member.post(LeaveWanted(reason))
        cause = _UNANSWERED
        try:
            async for notice in member.notices:
                match notice:
                    case Left():
                        return
                    case Fail(error=error):
                        cause = str(error)
                        break
        except trio.Cancelled:
            self._runtime.observer(LeaveFailed(self._runtime.group, cause))
            raise
        self._runtime.observer(LeaveFailed(self._runtime.group, cause))
