"""The trio shell around the membership machine: carries out its commands, reports back, keeps its deadlines.

One task owns the machine; everybody else talks to it by `post` and listens to `notices`. Each command runs in a
task of its own and ends in exactly one event. Decides nothing about the protocol.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, TypeVar

import attrs
import trio

from sarameya.config import Config
from sarameya.error_codes import ErrorCode
from sarameya.errors import ProtocolError, SarameyaError, UnsupportedVersionError
from sarameya.net.broker_pool import BrokerPool
from sarameya.net.coordinator import CoordinatorClient
from sarameya.net.metadata_refresher import MetadataRefresher
from sarameya.net.retries import Retries
from sarameya.observe import CoordinatorFound as CoordinatorFoundEvent
from sarameya.observe import MembershipChanged, Observer, Retrying
from sarameya.protocol.assignors.base import Assignor, Subscription, TopicLayout
from sarameya.protocol.backoff import Backoff
from sarameya.protocol.membership import Membership, MembershipOptions
from sarameya.protocol.membership_messages import (
    Assign,
    AssignmentFailed,
    AssignmentMade,
    Command,
    CoordinatorFound,
    EndSession,
    Event,
    Fail,
    FindCoordinator,
    FindFailed,
    ForgetCoordinator,
    Left,
    RebalanceWanted,
    RequestFailed,
    RequestImpossible,
    RetryScheduled,
    SendHeartbeat,
    SendJoin,
    SendLeave,
    SendSync,
    StartSession,
    StateChanged,
)
from sarameya.protocol.membership_states import State
from sarameya.protocol.metadata import Broker
from sarameya.protocol.rebalance import decode_subscription, encode_assignment, encode_subscription


@attrs.frozen(slots=True)
class CloseWanted:
    """Somebody asked the group to close."""


Notice = StartSession | EndSession | Left | Fail | CloseWanted
"""What the group loop listens for."""

_LOOK_UPS = 5
"""How often a leader looks for a topic's partitions before it assigns without them."""

T = TypeVar("T")


class RunSync(Protocol):
    """Runs a function beside the event loop: `trio.to_thread.run_sync`, or inline under virtual time."""

    async def __call__(self, function: Callable[[], T], /) -> T: ...


class Member:
    """One member of one group, while `run` runs."""

    def __init__(
        self,
        group: str,
        topics: Sequence[str],
        assignors: Sequence[Assignor],
        pool: BrokerPool,
        metadata: MetadataRefresher,
        config: Config,
        observer: Observer,
        run_sync: RunSync,
    ) -> None:
        self.client = CoordinatorClient(pool, group, config)
        self._group = group
        self._topics = tuple(sorted(topics))
        self._assignors = {assignor.name: assignor for assignor in assignors}
        self._pool = pool
        self._metadata = metadata
        self._config = config
        self._observer = observer
        self._run_sync = run_sync
        self._machine = Membership(
            MembershipOptions(
                group=group,
                heartbeat_interval=config.heartbeat_interval,
                rebalance_timeout=config.rebalance_timeout,
                rebalance_margin=config.rebalance_margin,
                group_instance_id=config.group_instance_id,
            ),
            Backoff(config.retry_backoff, config.retry_backoff_max),
        )
        self._send_event, self._events = trio.open_memory_channel[Event](math.inf)
        self._send_notice, self.notices = trio.open_memory_channel[Notice](math.inf)
        self._stepped = trio.Event()
        # What we, as leader, have assigned from: each subscribed topic -> its partitions, 0 where it was missing.
        self._assigned_counts: Mapping[str, int] = {}

    # -- for the group loop and the offset manager --------------------------------------------------

    def post(self, event: Event) -> None:
        """Tell the machine something; never blocks."""
        self._send_event.send_nowait(event)

    def notify(self, notice: Notice) -> None:
        """Put a notice of one's own among those of the machine."""
        self._send_notice.send_nowait(notice)

    async def coordinator(self) -> int:
        """The node id of the group's coordinator; waits while none is known."""
        while (node_id := self._machine.coordinator) is None:
            await self._stepped.wait()
        return node_id

    # -- the machine's task --------------------------------------------------------------------------

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Drive the machine until cancelled."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._watch_partition_counts)
            task_status.started()
            while True:
                event = await self._next_event()
                now = trio.current_time()
                machine = self._machine
                commands = machine.handle_timer(now) if event is None else machine.receive(event, now)
                for command in commands:
                    self._carry_out(command, nursery)
                self._stepped.set()
                self._stepped = trio.Event()

    async def _next_event(self) -> Event | None:
        """The next event, or None once the machine's deadline has come."""
        deadline = self._machine.next_deadline()
        with trio.CancelScope(deadline=math.inf if deadline is None else deadline):
            return await self._events.receive()
        return None

    def _carry_out(self, command: Command, nursery: trio.Nursery) -> None:
        match command:
            case FindCoordinator(token=token):
                nursery.start_soon(self._find, token)
            case SendJoin() | SendSync() | SendHeartbeat() | SendLeave():
                assert self._machine.coordinator is not None
                nursery.start_soon(self._exchange, command, self._machine.coordinator)
            case Assign():
                nursery.start_soon(self._assign, command)
            case StartSession() | EndSession() | Left() | Fail():
                self.notify(command)
            case StateChanged(before=before, after=after, cause=cause):
                self._observer(MembershipChanged(self._group, before, after, cause))
            case RetryScheduled():
                self._observer(Retrying(command.what, command.attempt, command.elapsed, command.delay, command.cause))
            case ForgetCoordinator():
                pass  # `coordinator()` reads it from the machine

    async def _find(self, token: int) -> None:
        try:
            located = await self.client.find()
        except SarameyaError as error:
            self.post(FindFailed(token, 0, str(error)))
            return
        if located.code:
            self.post(FindFailed(token, located.code, located.message))
            return
        self._pool.learn(Broker(located.node_id, located.host, located.port))
        self._observer(CoordinatorFoundEvent(self._group, located.node_id, located.host, located.port))
        self.post(CoordinatorFound(token, located.node_id))

    async def _exchange(self, command: SendJoin | SendSync | SendHeartbeat | SendLeave, node_id: int) -> None:
        try:
            match command:
                case SendJoin():
                    self.post(await self.client.join(node_id, command, self._subscriptions()))
                case SendSync():
                    self.post(await self.client.sync(node_id, command))
                case SendHeartbeat():
                    self.post(await self.client.heartbeat(node_id, command))
                case SendLeave():
                    self.post(await self.client.leave(node_id, command))
        except UnsupportedVersionError as error:
            self.post(RequestImpossible(command.token, error))
        except SarameyaError as error:
            # The coordinator may have a new address, or be another node.
            self._metadata.request_refresh()
            self.post(RequestFailed(command.token, str(error)))

    # -- as leader -----------------------------------------------------------------------------------

    def _subscriptions(self) -> list[tuple[str, bytes]]:
        return [
            (
                name,
                encode_subscription(
                    Subscription(
                        topics=self._topics,
                        user_data=assignor.subscription_user_data(),
                        rack_id=self._config.rack_id,
                    )
                ),
            )
            for name, assignor in self._assignors.items()
        ]

    async def _assign(self, command: Assign) -> None:
        try:
            assignments = await self._encoded_assignments(command)
        except Exception as error:  # noqa: BLE001 - an assignor is the user's code; whatever it raises is fatal and said
            self.post(AssignmentFailed(command.token, error))
        else:
            self.post(AssignmentMade(command.token, assignments))

    async def _encoded_assignments(self, command: Assign) -> Mapping[str, bytes]:
        assignor = self._assignors.get(command.generation.protocol)
        if assignor is None:
            raise ProtocolError(f"the coordinator chose the assignor {command.generation.protocol!r}, not one of ours")
        members = {
            member.member_id: attrs.evolve(
                decode_subscription(member.metadata), group_instance_id=member.group_instance_id
            )
            for member in command.members
        }
        topics = {topic for subscription in members.values() for topic in subscription.topics}
        layouts = await self._layouts(topics)
        self._assigned_counts = {topic: layouts[topic].partitions if topic in layouts else 0 for topic in topics}

        def encoded() -> dict[str, bytes]:
            return {
                member: encode_assignment(assignment, assignor.assignment_user_data(member, assignment))
                for member, assignment in assignor.assign(members, layouts).items()
            }

        # In a thread: a slow assignor must not keep the heartbeats of its own member waiting.
        return await self._run_sync(encoded)

    async def _layouts(self, topics: set[str]) -> dict[str, TopicLayout]:
        """How each topic is laid out; one that is missing is looked up a few times before it is left out."""
        # Other members may read topics that we have never looked up.
        self._metadata.follow(topics)
        retries = Retries(f"partitions to assign in group {self._group}", self._config, self._observer)
        for _ in range(_LOOK_UPS):
            metadata = await self._metadata.refresh()
            missing = metadata.missing(topics)
            if not missing:
                break
            cause = ", ".join(f"{topic}: {ErrorCode.describe(code)}" for topic, code in sorted(missing.items()))
            await retries.wait(cause)
        return metadata.layouts(topics)

    async def _watch_partition_counts(self) -> None:
        """The leader's watch: topics that grow or appear are dealt anew. A failed look-up is not a change."""
        while True:
            metadata = await self._metadata.next()
            generation = self._machine.generation
            if generation is None or not generation.is_leader or self._machine.state is not State.STABLE:
                continue
            # Only what was dealt counts: we go on looking up topics whose last subscriber has left.
            counts = metadata.partition_counts(self._assigned_counts)
            changed = {topic: count for topic, count in counts.items() if count != self._assigned_counts[topic]}
            if changed:
                self.post(RebalanceWanted(f"partition counts have changed: {changed}"))
