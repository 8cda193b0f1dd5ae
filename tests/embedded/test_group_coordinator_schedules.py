"""Random schedules. Any clients get all their responses, and conforming clients reach a stable group."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from sarameya.embedded.groups.config import CoordinatorConfig
from sarameya.embedded.groups.member_sessions import MemberKey
from sarameya.embedded.groups.model.group_states import GroupState
from sarameya.embedded.groups.model.messages import JoinGroupResult, LeavingMember, SyncGroupResult
from sarameya.embedded.groups.rebalancer import GroupJoinKey, GroupSyncKey
from sarameya.error_codes import ErrorCode
from tests.embedded.coordinator_kit import GROUP, HeldReply, Kit, config, protocols

CONFIGS = [
    config(),
    config(initial_rebalance_delay=3.0),
    config(max_size=3),
    config(offsets_retention=100.0, offsets_retention_check_interval=20.0),
]

# --- arbitrary clients ---------------------------------------------------------------------------------------------

Instances = st.sampled_from([None, None, "i1", "i2"])
JoinFields = st.fixed_dictionaries(
    {
        "session_timeout": st.sampled_from([6.0, 10.0, 30.0]),
        "rebalance_timeout": st.sampled_from([0.0, 5.0, 60.0]),
        "protocols": st.sampled_from(
            [protocols("range"), protocols("range", "sticky"), protocols("sticky", "range"), protocols("sticky")]
        ),
    }
)


class AnyClients(RuleBasedStateMachine):
    """Clients that join, sync, heartbeat, commit and leave at random, while the group moves and time passes."""

    def __init__(self) -> None:
        super().__init__()
        self.kit = Kit()
        self.ids: list[tuple[str, str | None]] = [("ghost", None)]
        self.replies: list[HeldReply[Any]] = []
        self.syncs: list[HeldReply[SyncGroupResult]] = []
        self.generation = 0

    @initialize(settings=st.sampled_from(CONFIGS))
    def choose_config(self, settings: CoordinatorConfig) -> None:
        self.kit = Kit(settings)

    def _join(self, member_id: str, instance: str | None, **fields: Any) -> None:
        def learn(answer: JoinGroupResult) -> None:
            reply(answer)
            if answer.member_id and (answer.member_id, instance) not in self.ids:
                self.ids.append((answer.member_id, instance))

        reply: HeldReply[JoinGroupResult] = HeldReply()
        self.replies.append(reply)
        self.kit.join_with(learn, member_id, group_instance_id=instance, **fields)

    @rule(instance=Instances, known_first=st.booleans(), fields=JoinFields)
    def join_without_id(self, instance: str | None, known_first: bool, fields: dict[str, Any]) -> None:
        self._join("", instance, requires_known_member_id=known_first, **fields)

    @rule(index=st.integers(0, 30), fields=JoinFields)
    def join_with_id(self, index: int, fields: dict[str, Any]) -> None:
        member_id, instance = self.ids[index % len(self.ids)]
        self._join(member_id, instance, **fields)

    @precondition(lambda self: self.kit.exists)
    @rule()
    def all_members_join(self) -> None:
        for member in list(self.kit.group.members.values()):
            self._join(member.member_id, member.group_instance_id, protocols=member.protocols)

    @rule(index=st.integers(0, 30), stale=st.booleans())
    def sync(self, index: int, stale: bool) -> None:
        self._sync(*self.ids[index % len(self.ids)], stale)

    @precondition(lambda self: self.kit.exists and self.kit.group.leader)
    @rule()
    def leader_syncs(self) -> None:
        self._sync(self.kit.group.leader or "", None, False)

    def _sync(self, member_id: str, instance: str | None, stale: bool) -> None:
        leads = self.kit.exists and self.kit.group.leader == member_id and not stale
        token = f"{self.kit.group.generation}".encode() if leads else b"usurped"
        assignments = {known: token for known, _ in self.ids}
        generation = self.kit.group.generation - stale if self.kit.exists else 1
        reply = self.kit.sync(member_id, assignments, generation=generation, group_instance_id=instance)
        self.replies.append(reply)
        self.syncs.append(reply)

    @rule(index=st.integers(0, 30))
    def heartbeat(self, index: int) -> None:
        member_id, instance = self.ids[index % len(self.ids)]
        self.kit.heartbeat(member_id, instance=instance)

    @precondition(lambda self: self.kit.exists)
    @rule()
    def all_members_heartbeat(self) -> None:
        for member_id in list(self.kit.group.members):
            self.kit.heartbeat(member_id)

    @rule(index=st.integers(0, 30))
    def commit(self, index: int) -> None:
        self.kit.commit(self.ids[index % len(self.ids)][0], self.generation)

    @rule(index=st.integers(0, 30))
    def leave(self, index: int) -> None:
        self.kit.leave(LeavingMember(*self.ids[index % len(self.ids)]))

    @rule(instance=st.sampled_from(["i1", "i2"]))
    def administrator_removes(self, instance: str) -> None:
        self.kit.leave(LeavingMember("", instance))

    @rule(seconds=st.sampled_from([0.0, 0.5, 3.0, 5.9, 6.0, 10.0, 60.0, 300.0]))
    def time_passes(self, seconds: float) -> None:
        self.kit.advance(seconds)

    @rule(seconds=st.sampled_from([6.0, 60.0, 1000.0]))
    def timer_comes_late(self, seconds: float) -> None:
        self.kit.now += seconds
        self.kit.coordinator.handle_timer(self.kit.now)

    @rule()
    def delete(self) -> None:
        if self.kit.coordinator.delete_group(GROUP, self.kit.now) is ErrorCode.NONE:
            self.generation = 0

    @rule()
    def move(self) -> None:
        image = self.kit.coordinator.unload(GROUP, self.kit.now)
        assert self.kit.coordinator.next_deadline() is None
        if image is not None:
            self.kit.coordinator.load(image, self.kit.now)
            self.generation = self.kit.group.generation

    @invariant()
    def every_reply_is_answered_or_waits_in_the_group(self) -> None:
        members = self.kit.group.members.values() if self.kit.exists else ()
        waiting = [m for m in members if m.awaiting_join] + [m for m in members if m.awaiting_sync]
        assert len(waiting) == sum(not reply.is_answered for reply in self.replies)

    @invariant()
    def only_waiting_operations_have_deadlines(self) -> None:
        rebalancer = self.kit.coordinator._rebalancer
        if not self.kit.exists:
            assert self.kit.coordinator.next_deadline() is None
            return
        group = self.kit.group
        preparing = group.state is GroupState.PREPARING_REBALANCE
        syncing = group.state in (GroupState.COMPLETING_REBALANCE, GroupState.STABLE) and bool(group.pending_sync)
        assert rebalancer.purgatory.watched(GroupJoinKey(GROUP)) == preparing
        assert rebalancer.purgatory.watched(GroupSyncKey(GROUP)) == syncing
        assert len(rebalancer.purgatory) == preparing + syncing
        sessions = 0
        for member in group.members.values():
            watched = rebalancer.sessions.purgatory.watched(MemberKey(GROUP, member.member_id))
            sessions += watched
            assert watched == 1 or (watched == 0 and member.awaits_result and not member.is_new)
        for pending in group.pending_members:
            assert rebalancer.sessions.purgatory.watched(MemberKey(GROUP, pending)) == 1
        assert len(rebalancer.sessions.purgatory) == sessions + len(group.pending_members)

    @invariant()
    def group_is_consistent(self) -> None:
        if not self.kit.exists:
            self.generation = 0
            return
        group = self.kit.group
        assert (group.state is GroupState.EMPTY) <= (not group.members)
        assert (not group.members) <= (group.state in (GroupState.EMPTY, GroupState.PREPARING_REBALANCE))
        assert (group.leader in group.members) if group.members else group.leader is None
        assert set(group.static_members.values()) == {m.member_id for m in group.members.values() if m.is_static}
        assert group.pending_sync <= set(group.members)
        assert not group.pending_members & set(group.members)
        assert not group.members or group.candidates()
        assert group.generation >= self.generation
        self.generation = group.generation

    @invariant()
    def assignments_come_from_the_leader_alone(self) -> None:
        assert all(reply.answer.assignment != b"usurped" for reply in self.syncs if reply.is_answered)

    def teardown(self) -> None:
        """Stop all clients: every wait ends, and the group is empty."""
        self.kit.advance(5000)
        assert all(reply.is_answered for reply in self.replies)
        assert self.kit.state in (GroupState.EMPTY, GroupState.DEAD)
        assert self.kit.coordinator.next_deadline() is None


TestAnyClients = AnyClients.TestCase
TestAnyClients.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)


# --- conforming clients --------------------------------------------------------------------------------------------


class Client:
    """A conforming member, second by second, until it crashes or leaves."""

    def __init__(self, name: str, start: int, end: int | None, leaves: bool, drain: int, instance: str | None) -> None:
        self.name = name
        self.start, self.end, self.leaves, self.drain, self.instance = start, end, leaves, drain, instance
        self.member_id = ""
        self.generation = -1
        self.drains_until: int | None = None
        self.joining: HeldReply[JoinGroupResult] | None = None
        self.syncing: HeldReply[SyncGroupResult] | None = None
        self.assignment: bytes | None = None

    @property
    def survives(self) -> bool:
        return self.end is None

    def step(self, kit: Kit, second: int) -> None:
        if second < self.start or (self.end is not None and second > self.end):
            return
        if second == self.end:
            if self.leaves:
                kit.leave(LeavingMember(self.member_id, self.instance))
        elif self.joining is not None:
            if self.joining.is_answered:
                self._joined(kit, self.joining.answer)
        elif self.syncing is not None:
            if self.syncing.is_answered:
                self._synced(kit, self.syncing.answer)
        elif self.assignment is None or second == self.drains_until:
            self._join(kit)
        elif second % 3 == 0:
            self._heartbeat(kit, second)

    def _join(self, kit: Kit) -> None:
        self.assignment = self.drains_until = None
        self.joining = kit.join(self.member_id, group_instance_id=self.instance, client_id=self.name)

    def _joined(self, kit: Kit, answer: JoinGroupResult) -> None:
        self.joining = None
        if answer.error is ErrorCode.NONE:
            self.member_id, self.generation = answer.member_id, answer.generation
            assignments = {m.member_id: f"{m.member_id} in {answer.generation}".encode() for m in answer.members}
            self.syncing = kit.sync(self.member_id, assignments, generation=self.generation)
        elif answer.error is ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = answer.member_id
        elif answer.error is ErrorCode.UNKNOWN_MEMBER_ID:
            self.member_id = ""
        else:
            assert answer.error in (ErrorCode.NOT_COORDINATOR, ErrorCode.REBALANCE_IN_PROGRESS)

    def _synced(self, kit: Kit, answer: SyncGroupResult) -> None:
        self.syncing = None
        if answer.error is ErrorCode.NONE:
            self.assignment = answer.assignment
        elif answer.error is ErrorCode.UNKNOWN_MEMBER_ID:
            self.member_id = ""

    def _heartbeat(self, kit: Kit, second: int) -> None:
        error = kit.heartbeat(self.member_id, self.generation, self.instance)
        if error is ErrorCode.REBALANCE_IN_PROGRESS and self.drains_until is None:
            self.drains_until = second + self.drain
        elif error in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION):
            self.member_id = "" if error is ErrorCode.UNKNOWN_MEMBER_ID else self.member_id
            self.assignment = None
        if self.drain == 0 and self.drains_until == second:
            self._join(kit)


Lives = st.lists(
    st.tuples(
        st.integers(0, 60),  # starts
        st.one_of(st.none(), st.integers(0, 120)),  # ends, so many seconds after the start
        st.booleans(),  # leaves, otherwise crashes
        st.integers(0, 25),  # drains for so many seconds before it joins again: up to two and a half sessions
        st.booleans(),  # a static member
    ),
    max_size=6,
)


@settings(max_examples=150, deadline=None)
@given(lives=Lives, moves=st.sets(st.integers(0, 180), max_size=3), chosen=st.sampled_from(CONFIGS[:2]))
def test_conforming_clients_reach_one_stable_generation(
    lives: list[tuple[int, int | None, bool, int, bool]], moves: set[int], chosen: CoordinatorConfig
) -> None:
    kit = Kit(chosen)
    clients = [
        Client(f"c{n}", start, None if life is None else start + life, leaves, drain, f"i{n}" if static else None)
        for n, (start, life, leaves, drain, static) in enumerate(lives)
    ]
    for second in range(1000):
        for client in clients:
            client.step(kit, second)
        if second in moves and (image := kit.coordinator.unload(GROUP, kit.now)) is not None:
            kit.coordinator.load(image, kit.now)
        kit.advance(1)
    survivors = [client for client in clients if client.survives]
    assert kit.state is GroupState.STABLE if survivors else kit.state in (GroupState.EMPTY, GroupState.DEAD)
    assert sorted(kit.member_ids) == sorted(client.member_id for client in survivors)
    for client in survivors:
        assert client.assignment == f"{client.member_id} in {client.generation}".encode()
        assert client.generation == kit.group.generation
