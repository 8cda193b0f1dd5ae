"""The client's half of a fetch session, against a broker that does what KIP-227 says."""

from __future__ import annotations

import uuid

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from sarameya.model import TopicPartition
from sarameya.protocol.fetch.fetch_session import NO_SESSION_ID, FetchPlan, FetchSession, PartitionFetch

PARTITIONS = [TopicPartition("orders", number) for number in range(4)]
IDS = [uuid.UUID(int=number) for number in (1, 2)]
A, B = PARTITIONS[:2]


def ask(position: int = 0, *, max_bytes: int = 100, topic_id: uuid.UUID | None = IDS[0]) -> PartitionFetch:
    return PartitionFetch(position, max_bytes, 0, topic_id)


def opened(*partitions: TopicPartition) -> FetchSession:
    session = FetchSession()
    for partition in partitions:
        session.put(partition, ask())
    session.plan()
    session.answered(7)
    return session


def test_first_request_is_full_and_begins_a_session() -> None:
    session = FetchSession()
    session.put(A, ask(5))
    plan = session.plan()
    assert (plan.session_id, plan.session_epoch, plan.is_full) == (NO_SESSION_ID, 0, True)
    assert plan.partitions == {A: ask(5)}


def test_quiet_partitions_do_not_travel() -> None:
    session = opened(A, B)
    session.put(A, ask(9))
    plan = session.plan()
    assert (plan.session_id, plan.session_epoch, plan.is_full) == (7, 1, False)
    assert (plan.partitions, plan.forgotten) == ({A: ask(9)}, ())


def test_partition_that_is_dropped_is_forgotten_once() -> None:
    session = opened(A, B)
    session.drop(A)
    assert session.plan().forgotten == ((A, IDS[0]),)
    session.answered(7)
    assert session.plan().forgotten == ()


def test_partition_dropped_and_added_again_is_not_sent() -> None:
    session = opened(A)
    session.drop(A)
    session.put(A, ask())
    plan = session.plan()
    assert (plan.partitions, plan.forgotten) == ({}, ())


def test_recreated_topic_starts_a_new_fetch_session() -> None:
    """Up to Fetch v12 topics go by name: a partition both forgotten and requested under one name is forgotten."""
    session = opened(A, B)
    session.put(A, ask(topic_id=IDS[1]))
    plan = session.plan()
    assert (plan.session_id, plan.is_full) == (7, True)
    assert (plan.partitions, plan.forgotten) == ({B: ask(), A: ask(topic_id=IDS[1])}, ())


def test_requested_new_session_ignores_the_pending_response() -> None:
    session = opened(A)
    session.plan()
    session.begin_anew()
    session.answered(7)
    plan = session.plan()
    assert (plan.session_id, plan.is_full, plan.partitions) == (7, True, {A: ask()})
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


def test_epoch_begins_again_at_one_behind_the_last_int32() -> None:
    session = opened(A)
    session._epoch = 2**31 - 1
    assert session.plan().session_epoch == 2**31 - 1
    session.answered(7)
    assert session.plan().session_epoch == 1


def test_full_request_names_last_what_was_changed_last() -> None:
    session = FetchSession()
    for partition in (A, B):
        session.put(partition, ask())
    session.put(A, ask(3))
    assert list(session.plan().partitions) == [B, A]


class FetchSessions(RuleBasedStateMachine):
    """Whatever is wanted, changed, lost or refused in whatever order: with each request that it has taken the broker
    knows what is wanted, no more and no less."""

    @initialize()
    def begin(self) -> None:
        self.session = FetchSession()
        self.plan: FetchPlan | None = None
        self.sent: dict[TopicPartition, PartitionFetch] = {}
        # The broker's: session id -> (next epoch, what it has been told).
        self.known: dict[int, tuple[int, dict[tuple[TopicPartition, uuid.UUID | None], PartitionFetch]]] = {}
        self.last_id = 0

    @rule(partition=st.sampled_from(PARTITIONS), position=st.integers(0, 2), topic_id=st.sampled_from(IDS))
    def put(self, partition: TopicPartition, position: int, topic_id: uuid.UUID) -> None:
        self.session.put(partition, ask(position, topic_id=topic_id))

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
    def take_and_answer(self, keeps_sessions: bool) -> None:
        code, session_id, told = self._take(keeps_sessions)
        self.plan = None
        if code:
            self.session.refused()
        else:
            assert told == {(tp, a.topic_id): a for tp, a in self.sent.items()}
            assert {(tp, self.session.known(tp)) for tp in self.sent} == set(self.sent.items())
            self.session.answered(session_id)

    @precondition(lambda self: self.plan is not None)
    @rule(was_taken=st.booleans())
    def lose(self, was_taken: bool) -> None:
        if was_taken:
            self._take(keeps_sessions=True)
        self.plan = None
        self.session.begin_anew()

    @rule()
    def evict(self) -> None:
        self.known.clear()

    def _take(
        self, keeps_sessions: bool
    ) -> tuple[bool, int, dict[tuple[TopicPartition, uuid.UUID | None], PartitionFetch]]:
        plan = self.plan
        assert plan is not None
        asks = {(tp, a.topic_id): a for tp, a in plan.partitions.items()}
        if plan.is_full:
            self.known.pop(plan.session_id, None)
            if not keeps_sessions:
                return False, NO_SESSION_ID, asks
            self.last_id += 1
            self.known[self.last_id] = (1, asks)
            return False, self.last_id, asks
        epoch, told = self.known.get(plan.session_id, (0, {}))
        if plan.session_epoch != epoch:
            return True, NO_SESSION_ID, {}
        for gone in plan.forgotten:
            assert gone in told, "the broker is told to forget what it has never known"
            del told[gone]
        told |= asks
        self.known[plan.session_id] = (epoch + 1, told)
        return False, plan.session_id, told

    @invariant()
    def one_session_at_most_is_in_use(self) -> None:
        assert len(self.known) <= self.last_id


TestFetchSessions = FetchSessions.TestCase
