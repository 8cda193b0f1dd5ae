"""Membership of one client in one group: a state machine. Events in, commands out, `next_deadline()`.

The transitions are in `states.py`, and only there. The machine does no I/O and has no clock. The shell
(`group/membership/member.py`) carries out the commands, reports the result of each as an event with the command's
token, and calls `handle_timer` at `next_deadline()`. A response with another than the expected token (`exchanges.py`)
is late, and ignored.

Rules that are easily broken (each has a test):

- Heartbeats start with the join's response and go on until the last commit. None is sent while a join or sync is in
  flight: the broker would answer it only after that request, and it does not expire members whose request it holds.
- A broker expires a member whose join or sync was lost on the way. A join or sync that may be lost is therefore sent
  again in time (`Unanswered`). If the coordinator holds the first request, the second replaces it.
- REBALANCE_IN_PROGRESS does not end the heartbeats. UNKNOWN_MEMBER_ID, ILLEGAL_GENERATION and fencing end them, in
  every state, and all owned partitions are lost.
- The shell decides which partitions to revoke before the join (eager) or after the sync (cooperative, KIP-429). The
  machine decides when, and sends the partitions that the shell reports as still owned.
- The rebalance deadline counts from the *send* time of the last heartbeat that was answered without error: the
  rebalance may have started right after it.
- A member that fails stops first, and then leaves: otherwise the group would wait for its session timeout.
- A static member does not leave (KIP-345): a restart within its session timeout moves no partitions.
- Ignore a member id in a response with an error. A former coordinator returns an id that the new coordinator never
  stored; a static member that used it would fence itself. Test:
  `tests/protocol/test_membership.py::test_member_id_in_a_refusal_is_not_adopted`.
- A join reports owned partitions with the last generation that was synced, even if a later generation was joined and
  its sync failed. Test:
  `tests/protocol/test_membership.py::test_join_after_a_failed_sync_keeps_the_owned_generation`.
- A leave overtakes a join that the coordinator holds, over a connection of its own (`Purpose.LEAVE`). Test:
  `tests/protocol/test_membership.py::test_leave_overtakes_a_join_that_is_held`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import attrs

from sarameya.error_codes import ErrorCode
from sarameya.errors import GroupError, RetriesExhaustedError, kafka_error
from sarameya.model import NO_GENERATION, Assignment, Generation
from sarameya.protocol.backoff import Backoff
from sarameya.protocol.membership.exchanges import MembershipExchanges, PendingRequest
from sarameya.protocol.membership.messages import (
    Assign,
    Assigned,
    AssignmentFailed,
    AssignmentMade,
    Command,
    CommitRefused,
    CoordinatorLost,
    Event,
    Fail,
    FindFailed,
    FindSucceeded,
    HeartbeatAnswered,
    JoinAnswered,
    JoinWanted,
    LeaveAnswered,
    LeaveWanted,
    Left,
    MembershipLost,
    PrepareRebalance,
    RebalanceWanted,
    RequestFailed,
    RequestImpossible,
    RetryScheduled,
    SendHeartbeat,
    SendJoin,
    SendLeave,
    SendSync,
    StateChanged,
    Supervise,
    SyncAnswered,
    Unanswered,
)
from sarameya.protocol.membership.retries import MembershipRetries
from sarameya.protocol.membership.states import (
    ASSIGNED,
    ENDS_LOST,
    HEARTBEATING,
    INPUTS,
    SILENT,
    Input,
    Reaction,
    Request,
    State,
    next_state,
    reaction_to,
)

_NOT_FROM_COORDINATOR = frozenset({Reaction.FIND_COORDINATOR, Reaction.RETRY})
"""Reactions to a broker that does not coordinate the group, or does not do so yet."""


@attrs.frozen(slots=True, kw_only=True)
class MembershipOptions:
    """Settings of the machine, from `Config`. Times are in seconds."""

    group: str
    heartbeat_interval: float
    rebalance_timeout: float
    rebalance_margin: float
    group_instance_id: str | None


class Membership:
    """Membership of one client. The public attributes are read-only for others."""

    def __init__(self, options: MembershipOptions, backoff: Backoff) -> None:
        self.state = State.UNJOINED
        self.member_id = ""
        self.generation: Generation | None = None
        self.answered_at: float | None = None
        """Time of the coordinator's last regular response to a join, a sync or a heartbeat. None before the first."""
        self._options = options
        self._retries = MembershipRetries(options.group, backoff)
        self._exchanges = MembershipExchanges()
        self._assignments: Mapping[str, bytes] | None = None
        self._leave_reason = ""
        self._join_reason = ""
        self._joined_as = ""
        # The partitions kept through the next join, and the generation in which they were assigned.
        self._owned: Assignment = {}
        self._owned_since = NO_GENERATION
        # Losses of the member id or the generation since the last sync.
        self._setbacks = 0
        # The time at which the next request of each kind may be sent; a backoff delays it.
        self._send_at = 0.0
        self._heartbeat_at = 0.0
        # The send time of the last heartbeat or sync that was answered without error.
        self._last_heard = 0.0
        self._commands: list[Command] = []

    @property
    def coordinator(self) -> int | None:
        """Node id of the group's coordinator, if it is known."""
        return self._exchanges.coordinator

    # -- calls of the shell -------------------------------------------------------------------------

    def receive(self, event: Event, now: float) -> list[Command]:
        """Process an event and return the commands that follow from it, in order."""
        self._handle(event, now)
        self._advance(now)
        return self._take()

    def handle_timer(self, now: float) -> list[Command]:
        """Return the commands that are due. Call it at `next_deadline()`; an early call does no harm."""
        self._advance(now)
        return self._take()

    def next_deadline(self) -> float | None:
        """Return the time at which to call `handle_timer`, or None if only an event can cause progress."""
        if self.state in SILENT:
            return None
        if self.coordinator is None:
            return None if self._exchanges.is_finding else self._exchanges.find_at
        if self._exchanges.in_flight is not None:
            return None
        if self.state in (State.PREPARING_REBALANCE, State.LEAVING):
            return self._send_at
        return min(self._send_at, self._heartbeat_at) if self._sync_ready() else self._heartbeat_at

    def rebalance_deadline(self) -> float:
        """Return the time by which the next join must be sent, so that the group does not remove this member."""
        return self._last_heard + self._options.rebalance_timeout - self._options.rebalance_margin

    # -- deciding what to send ----------------------------------------------------------------------

    def _advance(self, now: float) -> None:
        """Add the command for the next request, if one is due in the current state."""
        exchanges = self._exchanges
        if self.state in SILENT:
            return
        if self.coordinator is None:
            if not exchanges.is_finding and now >= exchanges.find_at:
                self._commands.append(exchanges.find())
        elif exchanges.in_flight is not None:
            return
        elif self.state is State.PREPARING_REBALANCE:
            if now >= self._send_at:
                token, owned = exchanges.send(Request.JOIN, now), self._owned
                since = self._owned_since if owned else NO_GENERATION
                silences = self._retries.silences
                self._commands.append(SendJoin(token, self.member_id, self._join_reason, owned, since, silences))
                self._joined_as = self.member_id
        elif self.state is State.LEAVING:
            if now >= self._send_at:
                token = exchanges.send(Request.LEAVE, now)
                self._commands.append(SendLeave(token, self.member_id, self._leave_reason))
        elif self._sync_ready() and now >= self._send_at:
            assert self.generation is not None
            assignments = self._assignments if self._assignments is not None else {}
            token = exchanges.send(Request.SYNC, now)
            self._commands.append(SendSync(token, self.generation, assignments, self._retries.silences))
        elif self.state in HEARTBEATING and now >= self._heartbeat_at:
            assert self.generation is not None
            self._heartbeat_at = now + self._options.heartbeat_interval
            self._commands.append(SendHeartbeat(exchanges.send(Request.HEARTBEAT, now), self.generation))

    def _sync_ready(self) -> bool:
        return self.state is State.COMPLETING_REBALANCE and not self._exchanges.is_assigning

    # -- events -------------------------------------------------------------------------------------

    def _handle(self, event: Event, now: float) -> None:
        match event:
            case JoinWanted(reason=reason, owned=owned, generation=generation):
                is_joining = self.state in (State.PREPARING_REBALANCE, State.COMPLETING_REBALANCE)
                # A session that is lost, but does not know it yet, must not join: its tasks still run.
                is_stale = generation is not None and (self.generation is None or self.generation.id != generation)
                if not (is_joining or is_stale):
                    self._join(now, reason, owned)
            case RebalanceWanted(reason=reason):
                if self.state is State.STABLE:  # otherwise a rebalance is in progress already
                    self._move(Input.REBALANCE, now, reason)
            case LeaveWanted(reason=reason):
                self._leave(now, reason)
            case FindSucceeded(token=token, node_id=node_id):
                if self._exchanges.found(token, node_id):
                    self._retries.succeeded(Request.FIND_COORDINATOR)
            case FindFailed(token=token, code=code, cause=cause):
                if self._exchanges.found(token, None):
                    self._find_failed(code, cause, now)
            case CoordinatorLost(coordinator=coordinator, cause=cause):
                if coordinator == self.coordinator:
                    self._forget_coordinator(cause)
            case RequestFailed(token=token, cause=cause):
                if (flight := self._exchanges.answered(token)) is not None:
                    self._find_again(flight.request, now, cause)
            case Unanswered(token=token, cause=cause):
                if (flight := self._exchanges.answered(token)) is not None:
                    self._send_again(flight, now, cause)
            case AssignmentMade(token=token, assignments=assignments):
                if self._exchanges.assigned(token):
                    self._assignments = assignments
            case AssignmentFailed(token=token, error=error):
                if self._exchanges.assigned(token):
                    self._refuse(error, now)
            case RequestImpossible(token=token, error=error):
                if self._exchanges.answered(token) is not None:
                    self._refuse(error, now)
            case CommitRefused(generation=generation, code=code):
                if self.generation is not None and self.generation.id == generation and self.state in ASSIGNED:
                    self._react(Request.COMMIT, code, now)
            case JoinAnswered() | SyncAnswered() | HeartbeatAnswered() | LeaveAnswered():
                if (flight := self._exchanges.answered(event.token)) is not None:
                    self._handle_response(event, flight, now)

    def _handle_response(
        self,
        event: JoinAnswered | SyncAnswered | HeartbeatAnswered | LeaveAnswered,
        flight: PendingRequest,
        now: float,
    ) -> None:
        if isinstance(event, JoinAnswered) and event.code in (ErrorCode.NONE, ErrorCode.MEMBER_ID_REQUIRED):
            # Not after other errors: a former coordinator returns an id that the new coordinator never stored.
            self.member_id = event.member_id
        if flight.request in (Request.JOIN, Request.SYNC):
            self._retries.answered()
        reaction = self._react(flight.request, event.code, now)
        if reaction not in _NOT_FROM_COORDINATOR:
            self.answered_at = now
        if reaction is not Reaction.PROCEED:
            return
        self._retries.succeeded(flight.request)
        match event:
            case JoinAnswered():
                self._joined(event, now)
            case SyncAnswered(assignment=assignment):
                assert self.generation is not None
                self._assignments = None
                self._setbacks = 0
                self._heard(flight.sent_at)
                self._owned_since = self.generation.id
                self._move(Input.SYNCED, now, "assigned")
                self._commands.append(Assigned(self.generation, assignment))
            case HeartbeatAnswered():
                self._heard(flight.sent_at)
            case LeaveAnswered():
                self._left(now, taken=True)

    def _joined(self, event: JoinAnswered, now: float) -> None:
        leads = event.leader == event.member_id
        self.generation = Generation(event.generation, event.member_id, event.protocol, leads)
        self._assignments = None
        self._heartbeat_at = now + self._options.heartbeat_interval
        self._send_at = now
        if leads and event.skip_assignment:
            self._commands.append(Supervise(event.members))
        elif leads:
            self._commands.append(Assign(self._exchanges.assign(), self.generation, event.members))
        self._move(Input.JOINED, now, f"joined generation {event.generation}")

    def _react(self, request: Request, code: int, now: float) -> Reaction:
        """Carry out the reaction to an error code, and return it."""
        reaction = reaction_to(request, code)
        cause = f"{request.name.lower()}: {kafka_error(code, self._options.group)}" if code else ""
        match reaction:
            case Reaction.PROCEED | Reaction.RAISE:
                pass
            case Reaction.FIND_COORDINATOR:
                self._find_again(request, now, cause)
            case Reaction.RETRY:
                self._retry(request, now, cause)
            case Reaction.FATAL:
                self._refuse(kafka_error(code, f"group {self._options.group!r}", GroupError), now)
            case Reaction.REBALANCE if request is Request.HEARTBEAT:
                # Ignored before the sync: old brokers return it to every member during a rebalance.
                if self.state in ASSIGNED:
                    self._move(INPUTS[reaction], now, cause)
            case Reaction.REBALANCE:
                self._move(INPUTS[reaction], now, cause)
                self._send_at = now + self._report_retry(self._retries.after_overtaking(now, cause))
            case Reaction.FORGET_MEMBER | Reaction.DROP_GENERATION | Reaction.ADOPT_MEMBER_ID:
                if reaction is Reaction.FORGET_MEMBER:
                    self.member_id = ""
                # The join after the first setback has no backoff. Repeated setbacks must not cause a storm of requests.
                self._setbacks += 1
                self._move(INPUTS[reaction], now, cause)
                # The join with a first member id has no backoff: the id soon expires without it (KIP-394).
                if self._joined_as and reaction is Reaction.ADOPT_MEMBER_ID:
                    self._retry(Request.JOIN, now, cause)
        return reaction

    # -- transitions --------------------------------------------------------------------------------

    def _move(self, by: Input, now: float, cause: str) -> None:
        before = self.state
        self.state = next_state(before, by, cause)
        if self.state is before:
            return
        self._commands.append(StateChanged(before.name, self.state.name, cause, by.name.lower()))
        if self.state is State.REVOKING:
            self._commands.append(PrepareRebalance(cause, self.rebalance_deadline()))
        elif self.state is State.LOST:
            self._commands.append(MembershipLost(cause))
        elif self.state is State.PREPARING_REBALANCE:
            self._exchanges.drop_assigning()
            self._assignments = None
            self._send_at = now
        if by in ENDS_LOST:
            self._disown()

    def _join(self, now: float, reason: str, owned: Assignment) -> None:
        was_lost = self.state is State.LOST
        if self.state is State.LEAVING:
            # The shell no longer waits for the response to the leave. If the coordinator accepts the leave, it refuses
            # the join with UNKNOWN_MEMBER_ID.
            self._exchanges.drop_request()
            self._retries.clear()
            self._disown()
        self._join_reason = reason
        self._owned = {} if was_lost else owned
        self._move(Input.JOIN_WANTED, now, reason)
        if was_lost and self._setbacks > 1:
            self._retry(Request.JOIN, now, reason)

    def _disown(self) -> None:
        self.generation = None
        self._owned, self._owned_since = {}, NO_GENERATION

    def _leave(self, now: float, reason: str) -> None:
        if self.state is State.LEAVING:
            return
        joined = bool(self.member_id)
        # Responses to requests in flight are ignored: their tokens are no longer the expected ones.
        self._exchanges.drop_all()
        self._leave_reason = reason
        self._send_at = self._exchanges.find_at = now
        self._move(Input.LEAVE_WANTED, now, reason)
        if not joined or self._options.group_instance_id is not None:
            self._left(now, taken=False)

    def _left(self, now: float, *, taken: bool) -> None:
        self._move(Input.LEFT, now, self._leave_reason)
        self.member_id, self.answered_at = "", None
        self._disown()
        self._retries.clear()
        self._commands.append(Left(taken, self._leave_reason))

    def _refuse(self, error: Exception, now: float) -> None:
        self._exchanges.drop_all()
        self._move(Input.REFUSED, now, str(error))
        self._commands.append(Fail(error))

    # -- the coordinator, retries, time -------------------------------------------------------------

    def _find_failed(self, code: int, cause: str, now: float) -> None:
        if code and reaction_to(Request.FIND_COORDINATOR, code) is Reaction.FATAL:
            self._refuse(kafka_error(code, f"group {self._options.group!r}", GroupError), now)
            return
        # The name of the code, since the broker's message may be empty.
        reason = ErrorCode.describe(code) if code else cause
        self._exchanges.find_at = now + self._schedule(Request.FIND_COORDINATOR, now, reason)

    def _find_again(self, request: Request, now: float, cause: str) -> None:
        self._forget_coordinator(cause)
        self._exchanges.find_at = now
        self._retry(request, now, cause)

    def _forget_coordinator(self, cause: str) -> None:
        if (forgotten := self._exchanges.forget_coordinator(cause)) is not None:
            self._commands.append(forgotten)

    def _retry(self, request: Request, now: float, cause: str) -> None:
        """Send the same request again, after backoff."""
        at = now + self._schedule(request, now, cause)
        if request is Request.HEARTBEAT:
            self._heartbeat_at = at
        elif request is not Request.COMMIT:  # the caller of a commit retries itself
            self._send_at = at

    def _send_again(self, flight: PendingRequest, now: float, cause: str) -> None:
        """Send an unanswered join or sync again at once, over a new connection. The first may be held, or lost."""
        self._forget_coordinator(cause)
        self._exchanges.find_at = self._send_at = now
        self._report_retry(self._retries.after_silence(flight.request, flight.sent_at, now, cause))

    def _schedule(self, request: Request, now: float, cause: str) -> float:
        """Return the delay before the retry of a failed request. Fail the membership if retries are exhausted."""
        try:
            return self._report_retry(self._retries.after_fault(request, now, cause))
        except RetriesExhaustedError as error:
            self._refuse(error, now)
            return math.inf

    def _report_retry(self, retry: RetryScheduled) -> float:
        """Report the retry to the shell, and return its delay."""
        self._commands.append(retry)
        return retry.delay

    def _heard(self, sent_at: float) -> None:
        self._last_heard = max(self._last_heard, sent_at)

    def _take(self) -> list[Command]:
        commands, self._commands = self._commands, []
        return commands
