import inspect
import logging

import attrs
import pytest

from sarameya import observe
from sarameya.model import Generation, TopicPartition
from sarameya.observe import (
    BackpressureEnded,
    CommitFailed,
    ConnectionLost,
    Event,
    LeaderChanged,
    Observers,
    PartitionBackpressured,
    ReadReplicaChanged,
    Retrying,
    SessionStarted,
    TaskStuck,
    log_event,
)

LOST = ConnectionLost(node_id=1, address="localhost:9092", cause="reset")
EVENTS = [c for _, c in inspect.getmembers(observe, inspect.isclass) if issubclass(c, Event)]


def test_all_observers_get_all_events_in_order():
    first, second = [], []
    observers = Observers([first.append])
    observers.add(second.append)
    for event in (LOST, CommitFailed("g", "why")):
        observers(event)
    assert first == second == [LOST, CommitFailed("g", "why")]


def test_raising_observer_is_removed_and_reported_once(caplog):
    def bad(_: Event) -> None:
        raise ValueError("no")

    seen = []
    observers = Observers([bad, seen.append])
    observers(LOST)
    observers(LOST)
    assert seen == [LOST, LOST]
    assert [(r.levelname, r.name) for r in caplog.records] == [("ERROR", "sarameya")]
    assert "bad" in caplog.text


def test_observer_raising_in_its_own_event_affects_no_other(caplog):
    seen = []

    def bad(event: Event) -> None:
        if event is LOST:
            observers(CommitFailed("g", "made by an observer"))
        raise ValueError("no")

    observers = Observers([bad, seen.append])
    observers(LOST)
    observers(LOST)
    assert seen == [CommitFailed("g", "made by an observer"), LOST, LOST]


def test_observer_added_during_an_event_gets_the_next_one():
    late = []
    observers = Observers([lambda _: observers.add(late.append) if not late else None])
    observers(LOST)
    assert late == []
    observers(LOST)
    assert late == [LOST]


def test_cancellation_and_interrupts_pass_through():
    def interrupt(_: Event) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Observers([interrupt])(LOST)


def test_observers_can_be_nested():
    seen = []
    Observers([Observers([seen.append])])(LOST)
    assert seen == [LOST]


@pytest.mark.parametrize("event_class", EVENTS, ids=lambda c: c.__name__)
def test_every_event_has_a_docstring(event_class):
    assert event_class.__doc__


@pytest.mark.parametrize("event_class", EVENTS, ids=lambda c: c.__name__)
def test_events_are_immutable_values(event_class):
    values = {field.name: number for number, field in enumerate(attrs.fields(event_class))}
    event = event_class(**values)
    assert event == event_class(**values)
    for field in attrs.fields(event_class):
        with pytest.raises(attrs.exceptions.FrozenInstanceError):
            setattr(event, field.name, None)


@pytest.mark.parametrize(
    ("event", "level"),
    [
        (LOST, logging.WARNING),
        (Retrying("join of group g", 2, 0.1, 0.1, "COORDINATOR_LOAD_IN_PROGRESS (14)", "join"), logging.INFO),
        (Retrying("join of group g", 3, 0.3, 0.2, "COORDINATOR_LOAD_IN_PROGRESS (14)", "join"), logging.WARNING),
        (TaskStuck("claim", "stack"), logging.ERROR),
        (SessionStarted("g", None, {}), logging.INFO),
        (PartitionBackpressured(TopicPartition("t", 1), 100), logging.INFO),
        (BackpressureEnded(TopicPartition("t", 1), 2.5), logging.INFO),
        (ReadReplicaChanged(TopicPartition("t", 1), 2, "named by the leader"), logging.INFO),
        (Event(), logging.DEBUG),
    ],
)
def test_events_are_logged_with_their_fields_and_level(event, level, caplog):
    with caplog.at_level(logging.DEBUG, "sarameya"):
        log_event(event)
    (record,) = caplog.records
    assert (record.levelno, record.getMessage()) == (level, str(event))


def test_text_of_an_event_is_one_line():
    generation = Generation(3, "member-1", "range", True)
    assert str(SessionStarted("orders", generation, {"t": (0, 1), "u": (2,)})) == (
        "session started: group=orders generation=3 assignment=t:[0 1],u:[2]"
    )
    assert str(Retrying("commit of group g", 2, 0.25, 0.5, "NOT_COORDINATOR (16)", "commit")) == (
        "retrying: what='commit of group g' attempt=2 elapsed=0.25 delay=0.50 cause='NOT_COORDINATOR (16)'"
    )
    assert str(LeaderChanged(TopicPartition("t", 1), None, 4, "found")) == (
        "leader changed: partition=t-1 before=None after=4 cause=found"
    )


def test_stuck_task_shows_its_stack_as_lines():
    assert str(TaskStuck("claim of t-0", "a\n  b\n")) == "task stuck: claim of t-0 does not end; its stack:\na\n  b"
