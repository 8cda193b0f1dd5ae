"""The client's half of a fetch session, against a broker that follows KIP-227."""

from __future__ import annotations

import uuid

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from sarameya.model import TopicPartition
from sarameya.protocol.fetch.fetch_session import NO_SESSION_ID, FetchPlan, FetchSession, PartitionFetch

PARTITIONS = [TopicPartition("orders", number) for number in range(4)]
IDS = [uuid.UUID(int=number) for number in (1, 2)]
A, B = PARTITIONS[:2]


def partition_fetch(position: int = 0, *, max_bytes: int = 100, topic_id: uuid.UUID | None = IDS[0]) -> PartitionFetch:
    return PartitionFetch(position, max_bytes, 0, topic_id)


def opened(*partitions: TopicPartition) -> FetchSession:
    session = FetchSession()
    for partition in partitions:
        session.put(partition, partition_fetch())
    session.plan()
    session.answered(7)
    return session


def test_first_request_is_full_and_starts_a_session() -> None:
    session = FetchSession()
    session.put(A, partition_fetch(5))
    plan = session.plan()
    assert (plan.session_id, plan.session_epoch, plan.is_full) == (NO_SESSION_ID, 0, True)
    assert plan.partitions == {A: partition_fetch(5)}


def test_unchanged_partitions_are_not_sent() -> None:
    session = opened(A, B)
    session.put(A, partition_fetch(9))
    plan = session.plan()
    assert (plan.session_id, plan.session_epoch, plan.is_full) == (7, 1, False)
    assert (plan.partitions, plan.forgotten) == ({A: partition_fetch(9)}, ())


def test_dropped_partition_is_forgotten_once() -> None:
    session = opened(A, B)
    session.drop(A)
    assert session.plan().forgotten == ((A, IDS[0]),)
    session.answered(7)
    assert session.plan().forgotten == ()


def test_partition_dropped_and_added_again_is_not_sent() -> None:
    session = opened(A)
    session.drop(A)
    session.put(A, partition_fetch())
    plan = session.plan()
    assert (plan.partitions, plan.forgotten) == ({}, ())


def test_recreated_topic_starts_a_new_fetch_session() -> None:
    """Up to Fetch v12 topics go by name: a partition both forgotten and requested under one name is forgotten."""
    session = opened(A, B)
    session.put(A, partition_fetch(topic_id=IDS[1]))
    plan = session.plan()
    assert (plan.session_id, plan.is_full) == (7, True)
    assert (plan.partitions, plan.forgotten) == ({B: partition_fetch(), A: partition_fetch(topic_id=IDS[1])}, ())


def test_requested_new_session_ignores_the_pending_response() -> None:
    session = opened(A)
    session.plan()
    session.begin_anew()
    session.answered(7)
    plan = session.plan()
    assert (plan.session_id, plan.is_full, plan.partitions) == (7, True, {A: partition_fetch()})
    session.answered(8)
    assert not session.plan().is_full


def test_broker_without_sessions_gets_full_requests() -> None:
    session = opened(A, B)
    session.plan()
    session.answered(NO_SESSION_ID)
    plan = session.plan()
    assert (plan.session_id, plan.session_epoch) == (NO_SESSION_ID, 0)
    assert plan.partitions.keys() == {A, B}


def test_lost_response_replaces_the_fetch_session() -> None:
    session = opened(A, B)
    session.plan()
    session.begin_anew()
    plan = session.plan()
    assert (plan.session_id, plan.session_epoch) == (7, 0)
    assert plan.partitions.keys() == {A, B}


def test_refused_session_is_followed_by_a_new_one() -> None:
    session = opened(A)
    session.plan()
    session.refused()
    plan = session.plan()
    assert (plan.session_id, plan.session_epoch) == (NO_SESSION_ID, 0)


def test_epoch_restarts_at_one_after_the_last_int32() -> None:
    session = opened(A)
    session._epoch = 2**31 - 1
    assert session.plan().session_epoch == 2**31 - 1
    session.answered(7)
    assert session.plan().session_epoch == 1


def test_full_request_lists_the_last_change_last() -> None:
    session = FetchSession()
    for partition in (A, B):
        session.put(partition, partition_fetch())
    session.put(A, partition_fetch(3))
    assert list(session.plan().partitions) == [B, A]


class FetchSessions(RuleBasedStateMachine):
    """After each request that the broker has handled, it knows exactly the wanted partitions.

    Partitions are added, changed and dropped, and requests are lost and refused, in any order.
    """

    @initialize()
    def begin(self) -> None:
        self.session = FetchSession()
        self.plan: FetchPlan | None = None
        self.sent: dict[TopicPartition, PartitionFetch] = {}
        # The broker's sessions: session id -> (next epoch, requested partitions).
        self.known: dict[int, tuple[int, dict[tuple[TopicPartition, uuid.UUID | None], PartitionFetch]]] = {}
        self.last_id = 0

    @rule(partition=st.sampled_from(PARTITIONS), position=st.integers(0, 2), topic_id=st.sampled_from(IDS))
    def put(self, partition: TopicPartition, position: int, topic_id: uuid.UUID) -> None:
        self.session.put(partition, partition_fetch(position, topic_id=topic_id))

    @rule(partition=st.sampled_from(PARTITIONS))
    def drop(self, partition: TopicPartition) -> None:
        self.session.drop(partition)

    @precondition(lambda self: self.plan is None)
    @rule()
    def send(self) -> None:
        self.sent = dict(self.session.wanted)
        self.plan = self.session.plan()
        assert not {tp for tp, _ in self.plan.forgotten} & self.plan.partitions.keys()

    @rule()
    def begin_anew(self) -> None:
        self.session.begin_anew()

    @precondition(lambda self: self.plan is not None)
    @rule(keeps_sessions=st.booleans())
    def respond(self, keeps_sessions: bool) -> None:
        code, session_id, requested = self._handle_request(keeps_sessions)
        self.plan = None
        if code:
            self.session.refused()
        else:
            assert requested == {(tp, a.topic_id): a for tp, a in self.sent.items()}
            assert {(tp, self.session.known(tp)) for tp in self.sent} == set(self.sent.items())
            self.session.answered(session_id)

    @precondition(lambda self: self.plan is not None)
    @rule(was_handled=st.booleans())
    def lose(self, was_handled: bool) -> None:
        if was_handled:
            self._handle_request(keeps_sessions=True)
        self.plan = None
        self.session.begin_anew()

    @rule()
    def evict(self) -> None:
        self.known.clear()

    def _handle_request(
        self, keeps_sessions: bool
    ) -> tuple[bool, int, dict[tuple[TopicPartition, uuid.UUID | None], PartitionFetch]]:
        plan = self.plan
        assert plan is not None
        fetches = {(tp, a.topic_id): a for tp, a in plan.partitions.items()}
        if plan.is_full:
            self.known.pop(plan.session_id, None)
            if not keeps_sessions:
                return False, NO_SESSION_ID, fetches
            self.last_id += 1
            self.known[self.last_id] = (1, fetches)
            return False, self.last_id, fetches
        epoch, requested = self.known.get(plan.session_id, (0, {}))
        if plan.session_epoch != epoch:
            return True, NO_SESSION_ID, {}
        for forgotten in plan.forgotten:
            assert forgotten in requested, "the request forgets a partition that the broker has never known"
            del requested[forgotten]
        requested |= fetches
        self.known[plan.session_id] = (epoch + 1, requested)
        return False, plan.session_id, requested

    @invariant()
    def each_session_has_its_own_id(self) -> None:
        assert len(self.known) <= self.last_id


TestFetchSessions = FetchSessions.TestCase
