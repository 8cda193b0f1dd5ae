"""A lock that threads of one group hold together."""

from __future__ import annotations

import threading

from sarameya_handlers.spark.tables.group_lock import GroupLock


class LockingThread:
    """A thread that acquires the lock, and holds it until `release` is called."""

    def __init__(self, lock: GroupLock, group: str) -> None:
        self._acquired, self._may_release = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._hold, args=(lock, group))
        self._thread.start()

    def acquires(self, seconds: float) -> bool:
        return self._acquired.wait(seconds)

    def release(self) -> None:
        self._may_release.set()
        self._thread.join()

    def _hold(self, lock: GroupLock, group: str) -> None:
        with lock.held(group):
            self._acquired.set()
            self._may_release.wait(10)


def test_another_group_waits_for_all_holders() -> None:
    lock = GroupLock()
    with lock.held("a"):
        with lock.held("a"):
            other = LockingThread(lock, "b")
            assert not other.acquires(0.05)
        assert not other.acquires(0.05)
    assert other.acquires(10)
    other.release()


def test_late_thread_waits_behind_another_group() -> None:
    lock = GroupLock()
    with lock.held("a"):
        first = LockingThread(lock, "b")
        assert not first.acquires(0.05)
        second = LockingThread(lock, "a")
        assert not second.acquires(0.05), "otherwise one group could lock out the other forever"
    assert first.acquires(10)
    assert not second.acquires(0.05)
    first.release()
    assert second.acquires(10)
    second.release()
