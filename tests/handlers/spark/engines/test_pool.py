"""Sessions, threads and cancellation. The driver is faked, threads are real."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any

import attrs
import pytest
import trio
import trio.testing

from sarameya_handlers.spark.engines import pool as pool_module
from sarameya_handlers.spark.engines.pool import Pool
from sarameya_handlers.spark.errors import LandingError, SparkGoneError
from tests.handlers.spark.engines.fake_driver import FakeDriver


@attrs.define(eq=False)
class Blocking:
    """Work that sets `begun`, waits for `release`, and keeps the exception of its check."""

    begun: trio.Event = attrs.field(factory=trio.Event)
    release: threading.Event = attrs.field(factory=threading.Event)
    ended: threading.Event = attrs.field(factory=threading.Event)
    session: Any = None
    raised: type[BaseException] | None = None
    _token: trio.lowlevel.TrioToken = attrs.field(factory=trio.lowlevel.current_trio_token)

    def __call__(self, session: Any, check: Callable[[], None]) -> None:
        self.session = session
        self._token.run_sync_soon(self.begun.set)
        self.release.wait()
        try:
            check()
        except BaseException as error:
            self.raised = type(error)
            raise
        finally:
            self.ended.set()


def number(session: Any, _: object) -> int:
    return int(session.number)


@pytest.fixture
def short_cancel_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool_module, "CANCEL_TIMEOUT", 0.05)
    monkeypatch.setattr(pool_module, "CANCEL_INTERVAL", 0.01)


async def cancelled(pool: Pool, work: Blocking, tag: str = "t") -> None:
    """Run the work until it has begun, and cancel it."""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(pool.run, work, tag)
        await work.begun.wait()
        nursery.cancel_scope.cancel()


async def test_work_is_tagged_only_while_it_runs() -> None:
    driver = FakeDriver()
    pool = Pool(driver, 1)

    def work(*_: object) -> tuple[list[str], threading.Thread]:
        return list(driver.tags[threading.get_ident()]), threading.current_thread()

    tags, thread = await pool.run(work, "t1")
    assert tags == ["t1"]
    assert await pool.run(work, "t2") == (["t2"], thread)


async def test_error_of_work_is_raised_and_its_session_reused() -> None:
    driver = FakeDriver()
    pool = Pool(driver, 1)

    def fail(*_: object) -> None:
        raise OSError("no")

    with pytest.raises(OSError, match="no"):
        await pool.run(fail, "t1")
    assert await pool.run(lambda session, _: session.number, "t2") == 1
    assert [tags for tags in driver.tags.values() if tags] == []


async def test_concurrent_work_is_limited_to_max_jobs() -> None:
    pool = Pool(FakeDriver(), 2)
    works = [Blocking() for _ in range(4)]
    async with trio.open_nursery() as nursery:
        for work in works[:2]:
            nursery.start_soon(pool.run, work, "t")
        await works[0].begun.wait()
        await works[1].begun.wait()
        for work in works[2:]:
            nursery.start_soon(pool.run, work, "t")
        await trio.testing.wait_all_tasks_blocked()
        assert [work.begun.is_set() for work in works] == [True, True, False, False]
        assert works[0].session is not works[1].session
        for work in works:
            work.release.set()
    assert {work.session.number for work in works} == {1, 2}


@pytest.mark.usefixtures("short_cancel_timeout")
async def test_cancellation_is_repeated_until_the_thread_ends() -> None:
    driver = FakeDriver()
    pool, work = Pool(driver, 1), Blocking()
    await cancelled(pool, work, "t1")
    assert driver.expected == 1
    assert not work.ended.is_set()
    for _ in range(3):
        await trio.to_thread.run_sync(driver.was_cancelled.acquire)
    assert set(driver.cancelled) == {(work.session, "t1")}
    work.release.set()
    await trio.to_thread.run_sync(work.ended.wait)
    assert work.raised is trio.Cancelled


async def test_cancelled_work_that_ends_promptly_is_awaited() -> None:
    driver = FakeDriver()
    pool, work = Pool(driver, 1), Blocking()

    def end() -> None:
        driver.was_cancelled.acquire()
        work.release.set()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.to_thread.run_sync, end)
        await cancelled(pool, work)
        assert work.ended.is_set()


@pytest.mark.usefixtures("short_cancel_timeout")
async def test_failed_cancel_request_does_not_hide_the_cancellation() -> None:
    driver = FakeDriver()
    pool, work = Pool(driver, 1), Blocking()

    def refuse(*_: object) -> None:
        raise ConnectionRefusedError

    driver.cancel = refuse  # type: ignore[method-assign]
    await cancelled(pool, work)
    work.release.set()
    await trio.to_thread.run_sync(work.ended.wait)


@pytest.mark.usefixtures("short_cancel_timeout")
async def test_abandoned_thread_keeps_its_slot_and_session() -> None:
    driver = FakeDriver()
    pool, work = Pool(driver, 1), Blocking()
    await cancelled(pool, work)
    async with trio.open_nursery() as nursery:
        following = Blocking()
        following.release.set()
        nursery.start_soon(pool.run, following, "t2")
        await trio.testing.wait_all_tasks_blocked()
        assert not following.begun.is_set()
        work.release.set()
    assert following.session is work.session


async def test_work_cancelled_in_the_queue_never_starts() -> None:
    pool, first, second = Pool(FakeDriver(), 1), Blocking(), Blocking()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(pool.run, first, "t1")
        await first.begun.wait()
        with trio.move_on_after(0.05):
            await pool.run(second, "t2")
        first.release.set()
    await pool.run(lambda *_: None, "t3")
    assert not second.begun.is_set()


async def test_driver_death_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    driver = FakeDriver()
    pool = Pool(driver, 2)

    def die(*_: object) -> None:
        driver.dead = "Spark's JVM has died"
        raise ConnectionRefusedError(111, "Connection refused")

    for _ in range(2):
        driver.dead = None
        with pytest.raises(SparkGoneError, match="JVM has died") as raised:
            await pool.run(die, "t")
        assert raised.value.begun
        assert raised.value.passes
        assert isinstance(raised.value, LandingError)
        assert isinstance(raised.value.__cause__, ConnectionRefusedError)
    assert pool.died == "Spark's JVM has died"
    assert [record.message for record in caplog.records if record.levelno == logging.ERROR] == ["Spark's JVM has died"]


@pytest.mark.parametrize("is_replaceable", [True, False])
@pytest.mark.parametrize("is_wrapped", [True, False])
async def test_fault_64_driver_with_an_unusable_class_is_replaced(is_replaceable: bool, is_wrapped: bool) -> None:
    """An example is Snappy's class, if its native library did not fit into a full temporary directory."""
    pool = Pool(FakeDriver(is_replaceable=is_replaceable), 2)

    def fail(*_: object) -> None:
        error = OSError("java.lang.NoClassDefFoundError: Could not initialize class org.xerial.snappy.Snappy")
        if is_wrapped:
            raise LandingError("orders-0: cannot be written") from error
        raise error

    with pytest.raises(LandingError, match=r"org\.xerial\.snappy\.Snappy") as raised:
        await pool.run(fail, "t")
    assert raised.value.passes
    assert isinstance(raised.value, SparkGoneError) is is_replaceable
    assert (pool.died is not None) is is_replaceable
    assert is_replaceable or str(raised.value).endswith("restart it"), "the user must restart it"


async def test_work_does_not_start_on_a_dead_driver() -> None:
    driver, work = FakeDriver(), Blocking()
    pool = Pool(driver, 1)
    await pool.run(lambda *_: None, "t1")
    driver.dead = "gone"
    with pytest.raises(SparkGoneError) as raised:
        await pool.run(work, "t2")
    assert not raised.value.begun
    assert not work.begun.is_set()
    assert pool.died == "gone"


async def test_stop_closes_all_sessions() -> None:
    driver = FakeDriver()
    pool, work = Pool(driver, 2), Blocking()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(pool.run, work, "t1")
        await work.begun.wait()
        await pool.run(lambda *_: None, "t2")
        pool.stop()
        assert [session.number for session in driver.closed] == [1, 2]
        assert driver.stops == 1
        work.release.set()


async def test_session_opened_after_stop_is_closed() -> None:
    driver = FakeDriver()
    pool = Pool(driver, 1)
    pool.stop_nowait()
    pool.open_first()
    assert driver.closed == driver.sessions


async def test_session_closed_by_the_driver_is_replaced_silently(
    caplog: pytest.LogCaptureFixture,
) -> None:
    driver = FakeDriver()
    pool = Pool(driver, 1)
    await pool.run(number, "t1")
    driver.sessions[0].closed = True
    assert await pool.run(number, "t2") == 2
    assert driver.closed == driver.sessions[:1]
    assert pool.died is None
    assert caplog.records == []


async def test_busy_session_of_a_replaced_pool_is_closed_after_work() -> None:
    driver = FakeDriver()
    pool, work = Pool(driver, 2), Blocking()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(pool.run, work, "t1")
        await work.begun.wait()
        await pool.run(number, "t2")
        pool.stop(include_busy=False)
        assert [session.number for session in driver.closed] == [2]
        work.release.set()
    assert [session.number for session in driver.closed] == [2, 1]


@pytest.fixture
def frequent_checks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool_module, "CHECK_INTERVAL", 0.01)
    monkeypatch.setattr(pool_module, "RESPONSE_TIMEOUT", 0.2)


@pytest.mark.usefixtures("frequent_checks", "short_cancel_timeout")
async def test_driver_hanging_under_work_is_killed() -> None:
    driver = FakeDriver()
    pool, work = Pool(driver, 1), Blocking()
    driver.answers.clear()
    with trio.fail_after(10), pytest.raises(SparkGoneError, match="The fake has not answered for 0 s") as raised:
        await pool.run(work, "t1")
    assert raised.value.begun
    assert driver.killed.is_set()
    assert pool.died == str(raised.value)
    work.release.set()


@pytest.mark.usefixtures("frequent_checks", "short_cancel_timeout")
async def test_driver_hanging_in_open_session_is_killed() -> None:
    driver = FakeDriver()
    pool = Pool(driver, 1)
    hangs = threading.Event()
    driver.open_session = hangs.wait  # type: ignore[method-assign]
    with trio.fail_after(10), pytest.raises(SparkGoneError, match="has not answered"):
        await pool.run(number, "t1")
    assert driver.killed.is_set()
    hangs.set()


@pytest.mark.usefixtures("frequent_checks", "short_cancel_timeout")
@pytest.mark.parametrize("max_jobs", [1, 2])
async def test_driver_hanging_under_cancelled_work_is_killed(max_jobs: int) -> None:
    """Abandoned threads hold all slots, so a waiter checks the driver."""
    driver = FakeDriver()
    pool, works, waiting = Pool(driver, max_jobs), [Blocking() for _ in range(max_jobs)], Blocking()
    driver.answers.clear()
    try:
        for work in works:
            await cancelled(pool, work)
        with trio.fail_after(10), pytest.raises(SparkGoneError, match="The fake has not answered") as raised:
            await pool.run(waiting, "t2")
        assert driver.killed.is_set()
        assert pool.died == str(raised.value)
        assert not raised.value.begun, "another Spark may run the work"
        assert not waiting.begun.is_set()
    finally:
        driver.answers.set()
        for work in works:
            work.release.set()


@pytest.mark.usefixtures("frequent_checks", "short_cancel_timeout")
async def test_driver_hanging_in_a_cancelled_open_is_killed() -> None:
    driver = FakeDriver()
    pool, opening, hangs = Pool(driver, 1), threading.Event(), threading.Event()

    def open_session() -> None:
        opening.set()
        hangs.wait()

    driver.open_session = open_session  # type: ignore[method-assign]
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(pool.run, number, "t1")
            await trio.to_thread.run_sync(opening.wait)
            nursery.cancel_scope.cancel()
        with trio.fail_after(10), pytest.raises(SparkGoneError, match="has not answered"):
            await pool.run(number, "t2")
        assert driver.killed.is_set()
    finally:
        hangs.set()


@pytest.mark.usefixtures("frequent_checks", "short_cancel_timeout")
async def test_responding_driver_survives_a_queue_of_waiters() -> None:
    driver = FakeDriver()
    pool, work, waiting = Pool(driver, 1), Blocking(), Blocking()
    await cancelled(pool, work)
    waiting.release.set()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(pool.run, waiting, "t2")
        await trio.sleep(0.5)
        assert not driver.killed.is_set()
        work.release.set()
    assert waiting.begun.is_set()


@pytest.mark.usefixtures("frequent_checks")
async def test_responding_driver_survives_long_work() -> None:
    driver = FakeDriver()
    pool, work, waiting = Pool(driver, 1), Blocking(), Blocking()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(pool.run, work, "t1")
        await work.begun.wait()
        nursery.start_soon(pool.run, waiting, "t2")
        await trio.sleep(0.5)
        assert not driver.killed.is_set()
        work.release.set()
        waiting.release.set()
