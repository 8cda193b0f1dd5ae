"""A lock that threads of one group hold together."""

from __future__ import annotations

import threading

from sarameya_handlers.spark.tables.group_lock import GroupLock


class Waiting:
    """A thread that takes the lock, and holds it until it may go."""

    def __init__(self, lock: GroupLock, group: str) -> None:
        self._has_it, self._may_go = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._hold, args=(lock, group))
        self._thread.start()

    def has_it(self, seconds: float) -> bool:
        return self._has_it.wait(seconds)

    def go(self) -> None:
        self._may_go.set()
        self._thread.join()

    def _hold(self, lock: GroupLock, group: str) -> None:
        with lock.held(group):
            self._has_it.set()
            self._may_go.wait(10)


def test_another_group_waits_for_all_holders() -> None:
    lock = GroupLock()
    with lock.held("a"):
        with lock.held("a"):
            other = Waiting(lock, "b")
            assert not other.has_it(0.05)
        assert not other.has_it(0.05)
    assert other.has_it(10)
    other.go()


def test_late_thread_waits_behind_another_group() -> None:
    lock = GroupLock()
    with lock.held("a"):
        first = Waiting(lock, "b")
        assert not first.has_it(0.05)
        second = Waiting(lock, "a")
        assert not second.has_it(0.05), "else one group could keep the other from it for ever"
    assert first.has_it(10)
    assert not second.has_it(0.05)
    first.go()
    assert second.has_it(10)
    second.go()
