"""A lock that several threads hold together, or one alone."""

from __future__ import annotations

import threading
from contextlib import AbstractContextManager

from sarameya_handlers.spark.tables.shared_lock import SharedLock


def entered(turn: AbstractContextManager[None]) -> tuple[threading.Thread, threading.Event, threading.Event]:
    """A thread that waits for its turn; what it sets once it has it, and what lets it go."""
    has_it, may_go = threading.Event(), threading.Event()

    def wait() -> None:
        with turn:
            has_it.set()
            may_go.wait(10)

    thread = threading.Thread(target=wait)
    thread.start()
    return thread, has_it, may_go


def test_one_alone_waits_for_all_who_share() -> None:
    lock = SharedLock()
    with lock.shared():
        with lock.shared():
            thread, has_it, may_go = entered(lock.alone())
            assert not has_it.wait(0.05)
        assert not has_it.wait(0.05)
    assert has_it.wait(10)
    may_go.set()
    thread.join()


def test_who_shares_waits_for_one_alone_and_for_one_who_came_before() -> None:
    lock = SharedLock()
    with lock.shared():
        first, has_first, first_may_go = entered(lock.alone())
        assert not has_first.wait(0.05)
        second, has_second, second_may_go = entered(lock.shared())
        assert not has_second.wait(0.05), "else those who share could keep it from one alone for ever"
    assert has_first.wait(10)
    assert not has_second.wait(0.05)
    first_may_go.set()
    assert has_second.wait(10)
    second_may_go.set()
    for thread in (first, second):
        thread.join()
