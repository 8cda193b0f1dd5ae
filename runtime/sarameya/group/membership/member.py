"""The trio shell around the membership machine: executes its commands, reports results, keeps its deadlines.

One task owns the machine. All other tasks send events with `post` and receive `notices`. Each command runs in its own
task and ends in exactly one event. The computation of an assignment is cancelled when its generation is over. This
module decides nothing about the protocol; `leader.py` computes assignments, and `topic_subscription.py` has the
subscription.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import trio

from sarameya.config import Config
from sarameya.errors import AssignorError, SarameyaError, UnsupportedVersionError
from sarameya.group.membership.leader import Leader, RunSync
from sarameya.group.membership.notices import NewAssignment, Notice, SubscriptionChanged
from sarameya.group.membership.topic_subscription import TopicSubscription
from sarameya.model import Assignment, Generation
from sarameya.net.broker_pool import BrokerPool, Purpose
from sarameya.net.coordinator import CoordinatorClient
from sarameya.net.metadata_refresher import MetadataRefresher
from sarameya.observe import CoordinatorFound, GroupLeft, MembershipChanged, Observer, Retrying
from sarameya.protocol.assignors import calling
from sarameya.protocol.assignors.base import Assignor, RebalanceProtocol
from sarameya.protocol.backoff import Backoff
from sarameya.protocol.cluster.metadata import ClusterMetadata
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
    ForgetCoordinator,
    GroupMember,
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
)
from sarameya.protocol.membership.states import COMMITTING, SILENT, State
from sarameya.protocol.rebalance import decode_assignment, decode_user_data
from sarameya.protocol.subscription import Growth, Wanted
from sarameya.status import GroupStatus


class Member:
    """A member of a group, for as long as `run` runs."""

    def __init__(
        self,
        group: str,
        wanted: Wanted,
        assignors: Sequence[Assignor],
        pool: BrokerPool,
        metadata: MetadataRefresher,
        config: Config,
        observer: Observer,
        backoff: Backoff,
        run_sync: RunSync,
    ) -> None:
        self.client = CoordinatorClient(pool, group, config)
        self.growth = Growth()
        self.is_cooperative = all(RebalanceProtocol.COOPERATIVE in assignor.protocols for assignor in assignors)
        self._group = group
        self._assignors = {assignor.name: assignor for assignor in assignors}
        self._pool = pool
        self._metadata = metadata
        self._observer = observer
        look_up_timeout = config.session_timeout / 4
        self._leader = Leader(
            group, self._assignors, metadata, observer, backoff, run_sync, self.growth, look_up_timeout
        )
        self._subscription = TopicSubscription(
            wanted,
            self._assignors,
            metadata,
            self._leader.watch,
            self.growth,
            config.rack_id,
            look_up_timeout,
        )
        self._machine = Membership(
            MembershipOptions(
                group=group,
                heartbeat_interval=config.heartbeat_interval,
                rebalance_timeout=config.rebalance_timeout,
                rebalance_margin=config.rebalance_margin,
                group_instance_id=config.group_instance_id,
            ),
            backoff,
        )
        self._send_event, self._events = trio.open_memory_channel[Event](math.inf)
        self._send_notice, self.notices = trio.open_memory_channel[Notice](math.inf)
        self._stepped = trio.Event()
        self._session_timeout = config.session_timeout
        self._owned_in_join: Assignment = {}
        self._assigning = trio.CancelScope()
        self._since = trio.current_time()

    # -- for the group loop and the session ----------------------------------------------------------

    def post(self, event: Event) -> None:
        """Send an event to the machine. Never blocks."""
        self._send_event.send_nowait(event)

    def notify(self, notice: Notice) -> None:
        """Add a notice to `notices`, where the machine's notices are, too."""
        self._send_notice.send_nowait(notice)

    def subscribe(self, wanted: Wanted | None) -> None:
        """Subscribe to other topics; None drops the subscription. A member that is in the group rejoins it."""
        self._subscription.change(wanted)
        self.notify(SubscriptionChanged())
        self._check_topics(self._metadata.current)

    @property
    def wanted(self) -> Wanted | None:
        """The subscription; None if it was dropped."""
        return self._subscription.wanted

    @property
    def topics(self) -> tuple[str, ...]:
        """The subscribed topics, according to the newest metadata."""
        return self._subscription.topics

    def status(self) -> GroupStatus:
        """Return the member's status, without partitions."""
        machine, generation, now = self._machine, self._machine.generation, trio.current_time()
        return GroupStatus(
            group=self._group,
            state=machine.state.name,
            seconds=now - self._since,
            member_id=machine.member_id,
            generation=-1 if generation is None else generation.id,
            assignor="" if generation is None else generation.protocol,
            is_leader=generation is not None and generation.is_leader,
            coordinator=-1 if machine.coordinator is None else machine.coordinator,
            coordinator_seconds=-1.0 if machine.answered_at is None else now - machine.answered_at,
            session_timeout=self._session_timeout,
        )

    async def coordinator(self) -> int | None:
        """Return the coordinator's node id; wait while it is unknown. Return None once the membership is over."""
        while self._machine.coordinator is None and self._machine.state not in SILENT:
            await self._stepped.wait()
        return self._machine.coordinator

    async def commit_generation(self) -> Generation | None:
        """Return the generation to commit under; None once the membership is over.

        Waits between the responses to join and sync: the coordinator accepts no commits in between.
        """
        while self._machine.state is State.COMPLETING_REBALANCE:
            await self._stepped.wait()
        return self._machine.generation if self._machine.state in COMMITTING else None

    def is_settled(self, generation: Generation) -> bool:
        """Return whether `generation` is current and no join is under way.

        Otherwise the machine knows already that the coordinator refuses commits of this generation.
        """
        machine = self._machine
        return machine.generation == generation and machine.state is not State.PREPARING_REBALANCE

    # -- the machine's task --------------------------------------------------------------------------

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Drive the machine until cancelled."""
        self._subscription.follow_topics()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._watch_topics)
            task_status.started()
            while True:
                event = await self._next_event()
                now = trio.current_time()
                machine = self._machine
                commands = machine.handle_timer(now) if event is None else machine.receive(event, now)
                for command in commands:
                    self._execute(command, nursery)
                self._stepped.set()
                self._stepped = trio.Event()

    async def _next_event(self) -> Event | None:
        """Return the next event, or None at the machine's deadline."""
        deadline = self._machine.next_deadline()
        with trio.CancelScope(deadline=math.inf if deadline is None else deadline):
            return await self._events.receive()
        return None

    def _execute(self, command: Command, nursery: trio.Nursery) -> None:
        match command:
            case FindCoordinator(token=token):
                nursery.start_soon(self._find, token)
            case SendJoin() | SendSync() | SendHeartbeat() | SendLeave():
                assert self._machine.coordinator is not None
                if isinstance(command, SendJoin):
                    # An assignment of the previous generation must not be sent any more.
                    self._assigning.cancel()
                    self._assigning = trio.CancelScope()
                nursery.start_soon(self._exchange, command, self._machine.coordinator)
            case Assign():
                nursery.start_soon(self._assign, command, self._assigning)
            case Supervise(members=members):
                nursery.start_soon(self._supervise, members, self._assigning)
            case Assigned():
                self._on_assigned(command)
            case Left(taken=taken, reason=reason):
                if taken:  # reported here: the caller that requested the leave may not wait for it
                    self._observer(GroupLeft(self._group, reason))
                self.notify(command)
            case PrepareRebalance() | MembershipLost() | Fail():
                self.notify(command)
            case StateChanged(before=before, after=after, cause=cause, trigger=trigger):
                self._since = trio.current_time()
                self._observer(MembershipChanged(self._group, before, after, cause, trigger))
            case RetryScheduled():
                retry = command
                self._observer(Retrying(retry.what, retry.attempt, retry.elapsed, retry.delay, retry.cause, retry.kind))
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
        self._observer(CoordinatorFound(self._group, located.node_id, located.host, located.port))
        self.post(FindSucceeded(token, located.node_id))

    async def _exchange(self, command: SendJoin | SendSync | SendHeartbeat | SendLeave, node_id: int) -> None:
        try:
            match command:
                case SendJoin():
                    self._owned_in_join = command.owned
                    self.post(await self.client.join(node_id, command, await self._subscription.for_join(command)))
                case SendSync():
                    self.post(await self.client.sync(node_id, command))
                case SendHeartbeat():
                    self.post(await self.client.heartbeat(node_id, command))
                case SendLeave():
                    self.post(await self.client.leave(node_id, command))
        except (UnsupportedVersionError, AssignorError) as error:
            self.post(RequestImpossible(command.token, error))
        except SarameyaError as error:
            # The coordinator may have a new address, or be another node.
            self._metadata.request_refresh()
            if isinstance(command, SendHeartbeat):
                # A commit on that connection would wait for a whole request timeout instead of going to the next
                # coordinator.
                self._pool.close_connection(node_id, Purpose.OFFSETS)
            self.post(RequestFailed(command.token, str(error)))
        except Exception as error:  # noqa: BLE001 - a bug here must be raised, or the member would never join
            self.post(RequestImpossible(command.token, error))

    # -- topics and assignments ----------------------------------------------------------------------

    async def _watch_topics(self) -> None:
        """Request a rebalance when topics appear, vanish or get partitions. A failed lookup counts as no change."""
        while True:
            self._check_topics(await self._subscription.next_metadata())

    def _check_topics(self, metadata: ClusterMetadata) -> None:
        """Request a rebalance if the topics have changed. Called with new metadata, and after each assignment."""
        self._subscription.record_added_partitions(metadata)
        generation = self._machine.generation
        if self._machine.state is not State.STABLE or generation is None:
            return
        if (reason := self._subscription.outdated(metadata, is_leader=generation.is_leader)) is not None:
            self.post(RebalanceWanted(reason))

    async def _assign(self, command: Assign, scope: trio.CancelScope) -> None:
        with scope:
            try:
                assignments = await self._leader.assign(command)
            except Exception as error:  # noqa: BLE001 - an assignor is the user's code; any exception is fatal
                self.post(AssignmentFailed(command.token, error))
            else:
                self.post(AssignmentMade(command.token, assignments))

    async def _supervise(self, members: tuple[GroupMember, ...], scope: trio.CancelScope) -> None:
        with scope:
            try:
                await self._leader.supervise(members)
            except SarameyaError as error:
                self.notify(Fail(error))

    def _on_assigned(self, assigned: Assigned) -> None:
        generation = assigned.generation
        try:
            assignment, user_data = decode_assignment(assigned.assignment)
            user_data, added = decode_user_data(user_data)
            if (assignor := self._assignors.get(generation.protocol)) is not None:
                calling.on_assignment(assignor, assignment, user_data, generation.id)
            self.growth.add(added)
        except Exception as error:  # noqa: BLE001 - bytes of another member, or the user's assignor: fatal
            self.notify(Fail(error))
            return
        if not generation.is_leader:
            self._leader.watch.assigned_from({})
        self.notify(NewAssignment(generation, assignment, self._owned_in_join))
        # Changes since the leader computed the assignment cause a rebalance at once.
        self._check_topics(self._metadata.current)
