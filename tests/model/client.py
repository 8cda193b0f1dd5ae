"""A client: the real membership machine, and a pure stand-in for the shell around it (`group/`).

Like the shell, but without tasks, it sends the machine's requests, assigns with the real assignors and encodings, reads
its partitions, commits, revokes after some time, and reports to the machine.
"""

from __future__ import annotations

import math
import random
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from sarameya.embedded.groups.model.messages import SupportedProtocol
from sarameya.error_codes import ErrorCode
from sarameya.model import Generation, TopicPartition, topic_partitions
from sarameya.protocol.assignors.base import Assignor, RebalanceProtocol
from sarameya.protocol.backoff import Backoff
from sarameya.protocol.membership.machine import Membership, MembershipOptions
from sarameya.protocol.membership.messages import (
    Assign,
    Assigned,
    AssignmentFailed,
    AssignmentMade,
    Command,
    Event,
    Fail,
    FindCoordinator,
    FindFailed,
    FindSucceeded,
    JoinAnswered,
    JoinWanted,
    LeaveWanted,
    Left,
    MembershipLost,
    PrepareRebalance,
    RebalanceWanted,
    RequestFailed,
    SendHeartbeat,
    SendJoin,
    SendLeave,
    SendSync,
    Supervise,
    Unanswered,
)
from sarameya.protocol.membership.states import State
from tests.model.brokers import GROUP, Body, FindAnswer, FindRequest
from tests.model.client_session import ClientSession
from tests.model.environment import Surroundings
from tests.model.leader import Leader
from tests.model.network import NO_ANSWER
from tests.model.offsets import Offsets
from tests.model.wire import Exchange, Wire, event_of, request_of, supported

_MANY, _SHORT = 60, 5.0
"""A client that starts _MANY commands within _SHORT seconds fails the test."""

_JOINING = frozenset({State.PREPARING_REBALANCE, State.COMPLETING_REBALANCE})
"""States in which JoinWanted changes nothing: the join under way keeps its owned partitions."""

Action = Callable[[], None]


class Client:
    """A process with one member, identified by `name`. A process that restarts is another client."""

    def __init__(
        self,
        world: Surroundings,
        name: str,
        *,
        topics: Iterable[str],
        assignors: Sequence[Assignor],
        instance_id: str | None = None,
        drain: float = 0.0,
        assigning: float = 0.0,
        lag: float = 0.0,
    ) -> None:
        """Create a client; `start` joins the group.

        Args:
            world: the scheduler, the timing, the connections and the topics.
            name: its client id.
            topics: the topics that it subscribes to.
            assignors: its assignors, in the order of its preference.
            instance_id: makes it a static member.
            drain: seconds that its claims take to drain.
            assigning: seconds that its assignors take.
            lag: seconds until it handles a notice of the machine.
        """
        self.name = name
        self.topics = tuple(sorted(topics))
        self.assignors = tuple(assignors)
        self.instance_id = instance_id
        self.assigning = assigning
        self.lag = lag
        self.assignor_fails = False
        self.is_frozen = self.is_over = self.has_left = False
        self.started_at, self.over_at = world.scheduler.now, math.inf
        self.error: Exception | None = None
        self.failed_as = ""
        self.notices = 0
        """The number of the machine's notices that are not handled yet."""
        self.outstanding: set[int] = set()
        """The tokens of the commands under way."""
        self.ids: set[str] = set()
        """The member ids under which it has joined."""
        self.past: deque[Event] = deque(maxlen=12)
        """The last responses; any of them may be repeated."""
        self._scheduler = world.scheduler
        self._timing = timing = world.timing
        self._tokens: set[int] = set()
        self._command_times: deque[float] = deque(maxlen=_MANY)
        self._inbox: deque[Event | Action] = deque()
        self._is_pumping = False
        self._waiting: set[Action] = set()
        self._joined_with = self.topics
        self._kept: frozenset[TopicPartition] = frozenset()
        options = MembershipOptions(
            group=GROUP,
            heartbeat_interval=timing.heartbeat_interval,
            rebalance_timeout=timing.rebalance_timeout,
            rebalance_margin=timing.rebalance_margin,
            group_instance_id=instance_id,
        )
        self.machine = Membership(options, Backoff(0.1, 1.0, rng=random.Random(name)))
        self.wire = Wire(world, name, self.do)
        self.leader = Leader(assignors, world.layouts)
        self.offsets = Offsets(self.machine, instance_id, self._send_offset_request, self.post, self._later)
        is_cooperative = all(RebalanceProtocol.COOPERATIVE in assignor.protocols for assignor in assignors)
        self.session = ClientSession(world, self.offsets, self.leader, drain, is_cooperative, self.post, self.do)

    def __repr__(self) -> str:
        return f"{self.name}({self.machine.state.name}, {self.machine.generation}, owns {sorted(self.owned)})"

    @property
    def owned(self) -> dict[TopicPartition, int | None]:
        """The position of each owned partition."""
        return self.offsets.positions

    @property
    def generation(self) -> Generation | None:
        """The generation in which the owned partitions were assigned or confirmed."""
        return self.offsets.generation

    # -- calls of the world --------------------------------------------------------------------------

    def start(self) -> None:
        self.post(JoinWanted("starts"))
        self._regularly(self._timing.autocommit_interval, self.session.work)
        self._regularly(self._timing.watch_interval, self._watch)

    def do(self, action: Action) -> None:
        """Run an action in this process: once it is not frozen, and never after its end."""
        self._inbox.append(action)
        self._pump()

    def post(self, event: Event) -> None:
        """Pass an event to the machine."""
        if isinstance(event, LeaveWanted):
            self._scheduler.after(self._timing.close_timeout, lambda: self.do(self._stop))
        self._inbox.append(event)
        self._pump()

    def freeze(self) -> None:
        """Suspend the process: events and actions wait until `thaw`."""
        self.is_frozen = True

    def thaw(self) -> None:
        self.is_frozen = False
        self._pump()

    def crash(self) -> None:
        """End the process at once, without a LeaveGroup request."""
        self._stop()

    def close(self) -> None:
        """End in order: drain, commit, leave."""
        self.session.close()

    def claim_returns(self) -> None:
        """End the session as if a handler's claim had returned; the client rejoins the group."""
        self.session.end()

    def subscribe(self, topics: Iterable[str]) -> None:
        self.topics = tuple(sorted(topics))
        self._watch()

    def next_deadline(self) -> float | None:
        return None if self.is_over or self.is_frozen else self.machine.next_deadline()

    def handle_timer(self) -> None:
        """Handle the machine's deadline, which has passed."""
        self.do(self._on_timer)

    # -- the machine's task --------------------------------------------------------------------------

    def _pump(self) -> None:
        if self._is_pumping:
            return
        self._is_pumping = True
        while self._inbox and not self.is_frozen and not self.is_over:
            item = self._inbox.popleft()
            if callable(item):
                item()
                continue
            if isinstance(item, JoinWanted) and self.machine.state not in _JOINING:
                self._kept = frozenset(topic_partitions(item.owned))
            for command in self.machine.receive(item, self._scheduler.now):
                self._carry_out(command)
        self._is_pumping = False

    def _on_timer(self) -> None:
        for command in self.machine.handle_timer(self._scheduler.now):
            self._carry_out(command)
        deadline = self.machine.next_deadline()
        assert deadline is None or deadline > self._scheduler.now, f"{self} has a deadline in the past again"

    def _carry_out(self, command: Command) -> None:
        if (token := getattr(command, "token", None)) is not None:
            self._begin(token)
        if self.is_over:
            return
        match command:
            case FindCoordinator():
                self._find(command.token)
            case SendJoin() | SendSync() | SendHeartbeat() | SendLeave():
                self._exchange(command)
            case Assign():
                self._scheduler.after(self.assigning, lambda: self.do(lambda: self._assign(command)))
            case Supervise(members=members):
                self.leader.supervise(members)
            case Assigned() | PrepareRebalance() | MembershipLost():
                self.notices += 1
                self._scheduler.after(self.lag, lambda: self.do(lambda: self._handle_notice(command)))
            case Left():
                self.has_left = True
                self._stop()
            case Fail() if self.error is not None:
                self._stop()  # the leave has failed too
            case Fail(error=error):
                self.error, self.failed_as = error, self.machine.member_id
                self.session.fail()

    def _begin(self, token: int) -> None:
        assert token not in self._tokens, f"{self} uses token {token} twice"
        self._tokens.add(token)
        self.outstanding.add(token)
        now = self._scheduler.now
        self._command_times.append(now)
        assert len(self._command_times) < _MANY or now - self._command_times[0] > _SHORT, f"{self} floods the broker"

    def _finish(self, event: Any) -> None:
        """Report the response to a command; each command has exactly one."""
        self.outstanding.discard(event.token)
        self.past.append(event)
        if isinstance(event, JoinAnswered) and event.code == ErrorCode.NONE:
            self.ids.add(event.member_id)
        self.post(event)

    def _stop(self) -> None:
        self.is_over, self.over_at = True, self._scheduler.now
        self.owned.clear()
        self._inbox.clear()
        self.wire.close()

    # -- commands ------------------------------------------------------------------------------------

    def _find(self, token: int) -> None:
        def answered(answer: FindAnswer) -> None:
            if answer.code:
                self._finish(FindFailed(token, answer.code, ErrorCode.describe(answer.code)))
            else:
                self._finish(FindSucceeded(token, answer.node_id))

        def failed(cause: str) -> None:
            self._finish(FindFailed(token, 0, cause))

        node_id = token % 2
        self.wire.send(node_id, "find", FindRequest(), self._timing.request_timeout, answered, failed)

    def _exchange(self, command: Exchange) -> None:
        assert self.machine.coordinator is not None

        def failed(cause: str) -> None:
            is_held = cause == NO_ANSWER and isinstance(command, SendJoin | SendSync)
            self._finish((Unanswered if is_held else RequestFailed)(command.token, cause))

        body, purpose, timeout = request_of(command, self.instance_id, self.name, self._protocols, self._timing)
        self.wire.send(
            self.machine.coordinator,
            purpose,
            body,
            timeout,
            lambda answer: self._finish(event_of(command.token, answer)),
            failed,
        )

    def _protocols(self, command: SendJoin) -> tuple[SupportedProtocol, ...]:
        self.session.claimed = claimed = frozenset(topic_partitions(command.owned))
        since = self.generation.id if self.generation is not None else None
        assert claimed <= self._kept, f"{self} joins with {sorted(claimed)}, and keeps {sorted(self._kept)}"
        assert not claimed or command.owned_since == since, f"{self} joins with generation {command.owned_since}"
        self._joined_with = self.topics
        return supported(command, self.topics, self.assignors)

    def _assign(self, command: Assign) -> None:
        if self.assignor_fails:
            self._finish(AssignmentFailed(command.token, RuntimeError("the assignor fails")))
        else:
            self._finish(AssignmentMade(command.token, self.leader.assign(command)))

    def _send_offset_request(
        self, node_id: int, body: Body, answered: Callable[[Any], None], failed: Callable[[str], None]
    ) -> None:
        self.wire.send(node_id, "offsets", body, self._timing.request_timeout, answered, failed)

    # -- notices of the machine ----------------------------------------------------------------------

    def _handle_notice(self, notice: Assigned | PrepareRebalance | MembershipLost) -> None:
        self.notices -= 1
        if self.error is None:
            self.session.handle_notice(notice, self.topics)
        self._watch()

    def _watch(self) -> None:
        """Request a rebalance if the subscription has changed or, for the leader, a topic has grown."""
        generation = self.machine.generation
        if self.machine.state is not State.STABLE or generation is None:
            return
        if self.topics != self._joined_with:
            self.post(RebalanceWanted("the subscription has changed"))
        elif generation.is_leader and self.leader.topics_have_changed():
            self.post(RebalanceWanted("partition counts have changed"))

    # -- time ----------------------------------------------------------------------------------------

    def _regularly(self, seconds: float, action: Action) -> None:
        def act() -> None:
            if not self.is_over:
                self._scheduler.after(seconds, act)
                self.do(action)

        self._scheduler.after(seconds, act)

    def _later(self, action: Action) -> None:
        """Call an action after 0.3 seconds; only once, even if it is scheduled again until then."""

        def act() -> None:
            self._waiting.discard(action)
            action()

        if action not in self._waiting:
            self._waiting.add(action)
            self._scheduler.after(0.3, lambda: self.do(act))
