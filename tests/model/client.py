"""A client: the real membership machine, and a pure stand-in for the shell around it (`group/`).

It does what the shell does, without tasks: sends the machine's requests, assigns with the real assignors and the real
bytes, reads its partitions, takes its time to revoke, commits, and reports to the machine.
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
from tests.model.holdings import Holdings
from tests.model.leading import Leading
from tests.model.network import NO_ANSWER
from tests.model.offsets import Offsets
from tests.model.surroundings import Surroundings
from tests.model.wire import Exchange, Wire, event_of, request_of, supported

_MANY, _SHORT = 60, 5.0
"""So many things asked for in so few seconds are a storm."""

_ON_ITS_WAY = frozenset({State.PREPARING_REBALANCE, State.COMPLETING_REBALANCE})
"""States in which the wish to join changes nothing: what was claimed then is claimed still."""

Action = Callable[[], None]


class Client:
    """A process with one member. `name` tells it apart; a process that restarts is another client."""

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
        """`drain`: seconds its claims take to finish; `assigning`: seconds its assignors take; `lag`: seconds until
        what the machine has to say is taken note of."""
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
        """What the machine has said and nobody has taken note of yet."""
        self.outstanding: set[int] = set()
        """The tokens of what is being carried out."""
        self.ids: set[str] = set()
        """The member ids under which it was let in."""
        self.past: deque[Event] = deque(maxlen=12)
        """The last answers; any may come again."""
        self._scheduler = world.scheduler
        self._timing = timing = world.timing
        self._tokens: set[int] = set()
        self._asked_at: deque[float] = deque(maxlen=_MANY)
        self._inbox: deque[Event | Action] = deque()
        self._is_pumping = False
        self._waiting: set[Action] = set()
        self._joined_with = self.topics
        self._said: frozenset[TopicPartition] = frozenset()
        options = MembershipOptions(
            group=GROUP,
            heartbeat_interval=timing.heartbeat_interval,
            rebalance_timeout=timing.rebalance_timeout,
            rebalance_margin=timing.rebalance_margin,
            group_instance_id=instance_id,
        )
        self.machine = Membership(options, Backoff(0.1, 1.0, rng=random.Random(name)))
        self.wire = Wire(world, name, self.do)
        self.leading = Leading(assignors, world.layouts)
        self.offsets = Offsets(self.machine, instance_id, self._ask_offsets, self.post, self._later)
        is_cooperative = all(RebalanceProtocol.COOPERATIVE in assignor.protocols for assignor in assignors)
        self.holdings = Holdings(world, self.offsets, self.leading, drain, is_cooperative, self.post, self.do)

    def __repr__(self) -> str:
        return f"{self.name}({self.machine.state.name}, {self.machine.generation}, owns {sorted(self.owned)})"

    @property
    def owned(self) -> dict[TopicPartition, int | None]:
        """Partitions that are read, and may be committed."""
        return self.offsets.positions

    @property
    def generation(self) -> Generation | None:
        """The generation in which all that is owned was assigned, or confirmed."""
        return self.offsets.generation

    # -- what the world does with it -----------------------------------------------------------------

    def start(self) -> None:
        self.post(JoinWanted("starts"))
        self._regularly(self._timing.autocommit_interval, self.holdings.work)
        self._regularly(self._timing.watch_interval, self._watch)

    def do(self, action: Action) -> None:
        """Run something in this process: not while it is frozen, and never again once it is over."""
        self._inbox.append(action)
        self._pump()

    def post(self, event: Event) -> None:
        """Tell the machine something."""
        if isinstance(event, LeaveWanted):
            self._scheduler.after(self._timing.close_timeout, lambda: self.do(self._stop))
        self._inbox.append(event)
        self._pump()

    def freeze(self) -> None:
        """The process stands still: what comes meanwhile waits."""
        self.is_frozen = True

    def thaw(self) -> None:
        self.is_frozen = False
        self._pump()

    def crash(self) -> None:
        """The process is gone, without a word."""
        self._stop()

    def close(self) -> None:
        """End in order: drain, commit, leave."""
        self.holdings.close()

    def claim_returns(self) -> None:
        """A handler has ended its session by itself; the group is rejoined."""
        self.holdings.end()

    def subscribe(self, topics: Iterable[str]) -> None:
        self.topics = tuple(sorted(topics))
        self._watch()

    def next_deadline(self) -> float | None:
        return None if self.is_over or self.is_frozen else self.machine.next_deadline()

    def handle_timer(self) -> None:
        """Let the machine know that its time has come."""
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
            if isinstance(item, JoinWanted) and self.machine.state not in _ON_ITS_WAY:
                self._said = frozenset(topic_partitions(item.owned))
            for command in self.machine.receive(item, self._scheduler.now):
                self._carry_out(command)
        self._is_pumping = False

    def _on_timer(self) -> None:
        for command in self.machine.handle_timer(self._scheduler.now):
            self._carry_out(command)
        deadline = self.machine.next_deadline()
        assert deadline is None or deadline > self._scheduler.now, f"{self} spins"

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
                self.leading.supervise(members)
            case Assigned() | PrepareRebalance() | MembershipLost():
                self.notices += 1
                self._scheduler.after(self.lag, lambda: self.do(lambda: self._take_note(command)))
            case Left():
                self.has_left = True
                self._stop()
            case Fail() if self.error is not None:
                self._stop()  # the good-bye has failed, too
            case Fail(error=error):
                self.error, self.failed_as = error, self.machine.member_id
                self.holdings.fail()

    def _begin(self, token: int) -> None:
        assert token not in self._tokens, f"{self} uses token {token} for the second time"
        self._tokens.add(token)
        self.outstanding.add(token)
        now = self._scheduler.now
        self._asked_at.append(now)
        assert len(self._asked_at) < _MANY or now - self._asked_at[0] > _SHORT, f"{self} storms"

    def _finish(self, event: Any) -> None:
        """The one event in which a command ends."""
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

    # -- carrying out --------------------------------------------------------------------------------

    def _find(self, token: int) -> None:
        def answered(answer: FindAnswer) -> None:
            if answer.code:
                self._finish(FindFailed(token, answer.code, ErrorCode.describe(answer.code)))
            else:
                self._finish(FindSucceeded(token, answer.node_id))

        def failed(cause: str) -> None:
            self._finish(FindFailed(token, 0, cause))

        anyone = token % 2
        self.wire.ask(anyone, "find", FindRequest(), self._timing.request_timeout, answered, failed)

    def _exchange(self, command: Exchange) -> None:
        assert self.machine.coordinator is not None

        def failed(cause: str) -> None:
            is_held = cause == NO_ANSWER and isinstance(command, SendJoin | SendSync)
            self._finish((Unanswered if is_held else RequestFailed)(command.token, cause))

        body, purpose, timeout = request_of(command, self.instance_id, self.name, self._protocols, self._timing)
        self.wire.ask(
            self.machine.coordinator,
            purpose,
            body,
            timeout,
            lambda answer: self._finish(event_of(command.token, answer)),
            failed,
        )

    def _protocols(self, command: SendJoin) -> tuple[SupportedProtocol, ...]:
        self.holdings.claimed = claimed = frozenset(topic_partitions(command.owned))
        since = self.generation.id if self.generation is not None else None
        assert claimed <= self._said, f"{self} claims {sorted(claimed)}"
        assert not claimed or command.owned_since == since, f"{self} claims what it owns since {command.owned_since}"
        self._joined_with = self.topics
        return supported(command, self.topics, self.assignors)

    def _assign(self, command: Assign) -> None:
        if self.assignor_fails:
            self._finish(AssignmentFailed(command.token, RuntimeError("the assignor fails")))
        else:
            self._finish(AssignmentMade(command.token, self.leading.assign(command)))

    def _ask_offsets(
        self, node_id: int, body: Body, answered: Callable[[Any], None], failed: Callable[[str], None]
    ) -> None:
        self.wire.ask(node_id, "offsets", body, self._timing.request_timeout, answered, failed)

    # -- what the machine says -----------------------------------------------------------------------

    def _take_note(self, notice: Assigned | PrepareRebalance | MembershipLost) -> None:
        self.notices -= 1
        if self.error is None:
            self.holdings.take_note(notice, self.topics)
        self._watch()

    def _watch(self) -> None:
        """Request a rebalance if the subscription has changed or, for the leader, a topic has grown."""
        generation = self.machine.generation
        if self.machine.state is not State.STABLE or generation is None:
            return
        if self.topics != self._joined_with:
            self.post(RebalanceWanted("the subscription has changed"))
        elif generation.is_leader and self.leading.topics_have_changed():
            self.post(RebalanceWanted("partition counts have changed"))

    # -- time ----------------------------------------------------------------------------------------

    def _regularly(self, seconds: float, action: Action) -> None:
        def act() -> None:
            if not self.is_over:
                self._scheduler.after(seconds, act)
                self.do(action)

        self._scheduler.after(seconds, act)

    def _later(self, action: Action) -> None:
        """Call something in a moment; once, however often it is asked for until then."""

        def act() -> None:
            self._waiting.discard(action)
            action()

        if action not in self._waiting:
            self._waiting.add(action)
            self._scheduler.after(0.3, lambda: self.do(act))
