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
from tests.handlers.spark.engines.drivers import FakeDriver


@attrs.define(eq=False)
class Blocking:
    """Work that says when it has begun, and ends when it is told to; what its check raised, if it did."""

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
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool_module, "CANCEL_TIMEOUT", 0.05)
    monkeypatch.setattr(pool_module, "CANCEL_INTERVAL", 0.01)


async def cancelled(pool: Pool, work: Blocking, tag: str = "t") -> None:
    """Run the work until it has begun, and cancel it."""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(pool.run, work, tag)
        await work.begun.wait()
        nursery.cancel_scope.cancel()


async def test_work_is_tagged_in_its_thread_and_the_tag_is_gone_after() -> None:
    driver = FakeDriver()
    pool = Pool(driver, 1)

    def work(*_: object) -> tuple[list[str], threading.Thread]:
        return list(driver.tags[threading.get_ident()]), threading.current_thread()

    tags, thread = await pool.run(work, "t1")
    assert tags == ["t1"]
    assert await pool.run(work, "t2") == (["t2"], thread)


async def test_what_work_raises_is_raised_and_its_session_used_again() -> None:
    driver = FakeDriver()
    pool = Pool(driver, 1)

    def fail(*_: object) -> None:
        raise OSError("no")

    with pytest.raises(OSError, match="no"):
        await pool.run(fail, "t1")
    assert await pool.run(lambda session, _: session.number, "t2") == 1
    assert [tags for tags in driver.tags.values() if tags] == []


async def test_works_at_once_are_max_jobs_and_have_sessions_of_their_own() -> None:
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


@pytest.mark.usefixtures("impatient")
async def test_cancelled_work_is_told_to_spark_again_and_again_until_its_thread_ends() -> None:
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


async def test_cancelled_work_that_ends_when_spark_is_told_is_waited_for() -> None:
    driver = FakeDriver()
    pool, work = Pool(driver, 1), Blocking()

    def end() -> None:
        driver.was_cancelled.acquire()
        work.release.set()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.to_thread.run_sync, end)
        await cancelled(pool, work)
        assert work.ended.is_set()


@pytest.mark.usefixtures("impatient")
async def test_spark_that_fails_to_cancel_does_not_hide_the_cancellation() -> None:
    driver = FakeDriver()
    pool, work = Pool(driver, 1), Blocking()

    def refuse(*_: object) -> None:
        raise ConnectionRefusedError

    driver.cancel = refuse  # type: ignore[method-assign]
    await cancelled(pool, work)
    work.release.set()
    await trio.to_thread.run_sync(work.ended.wait)


@pytest.mark.usefixtures("impatient")
async def test_abandoned_thread_keeps_its_place_and_its_session_until_it_ends() -> None:
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


async def test_work_that_is_cancelled_before_it_has_a_thread_never_begins() -> None:
    pool, first, second = Pool(FakeDriver(), 1), Blocking(), Blocking()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(pool.run, first, "t1")
        await first.begun.wait()
        with trio.move_on_after(0.05):
            await pool.run(second, "t2")
        first.release.set()
    await pool.run(lambda *_: None, "t3")
    assert not second.begun.is_set()


async def test_work_that_fails_with_its_driver_dead_says_so_once(caplog: pytest.LogCaptureFixture) -> None:
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
async def test_fault_64_driver_with_a_class_that_cannot_be_used_is_given_up(
    is_replaceable: bool, is_wrapped: bool
) -> None:
    """As snappy's, once its native library has found no room in a full temporary directory."""
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
    assert is_replaceable or str(raised.value).endswith("restart it"), "it is not ours"


async def test_work_does_not_begin_where_its_driver_has_died_meanwhile() -> None:
    driver, work = FakeDriver(), Blocking()
    pool = Pool(driver, 1)
    await pool.run(lambda *_: None, "t1")
    driver.dead = "gone"
    with pytest.raises(SparkGoneError) as raised:
        await pool.run(work, "t2")
    assert not raised.value.begun
    assert not work.begun.is_set()
    assert pool.died == "gone"


async def test_stop_closes_all_sessions_also_those_at_work() -> None:
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


async def test_session_that_is_opened_once_nobody_wants_it_is_closed() -> None:
    driver = FakeDriver()
    pool = Pool(driver, 1)
    pool.stop_nowait()
    pool.open_first()
    assert driver.closed == driver.sessions


async def test_session_that_the_driver_has_closed_is_replaced_and_nobody_told(
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


async def test_session_at_work_when_its_pool_is_replaced_is_closed_once_the_work_is_done() -> None:
    driver = FakeDriver()
    pool, work = Pool(driver, 2), Blocking()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(pool.run, work, "t1")
        await work.begun.wait()
        await pool.run(number, "t2")
        pool.stop(at_work=False)
        assert [session.number for session in driver.closed] == [2]
        work.release.set()
    assert [session.number for session in driver.closed] == [2, 1]


@pytest.fixture
def asks_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool_module, "CHECK_INTERVAL", 0.01)
    monkeypatch.setattr(pool_module, "RESPONSE_TIMEOUT", 0.2)


@pytest.mark.usefixtures("asks_soon", "impatient")
async def test_driver_that_hangs_under_work_is_killed_and_the_work_given_up() -> None:
    driver = FakeDriver()
    pool, work = Pool(driver, 1), Blocking()
    driver.answers.clear()
    with trio.fail_after(10), pytest.raises(SparkGoneError, match="The fake has not answered for 0 s") as raised:
        await pool.run(work, "t1")
    assert raised.value.begun
    assert driver.killed.is_set()
    assert pool.died == str(raised.value)
    work.release.set()


@pytest.mark.usefixtures("asks_soon", "impatient")
async def test_driver_that_hangs_while_it_opens_a_session_is_killed() -> None:
    driver = FakeDriver()
    pool = Pool(driver, 1)
    hangs = threading.Event()
    driver.open_session = hangs.wait  # type: ignore[method-assign]
    with trio.fail_after(10), pytest.raises(SparkGoneError, match="has not answered"):
        await pool.run(number, "t1")
    assert driver.killed.is_set()
    hangs.set()


@pytest.mark.usefixtures("asks_soon", "impatient")
@pytest.mark.parametrize("max_jobs", [1, 2])
async def test_driver_that_hangs_is_killed_though_all_that_it_had_to_do_was_cancelled(max_jobs: int) -> None:
    """The threads that were abandoned have all places: whoever waits for one asks."""
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
        assert not raised.value.begun, "another Spark may begin with it"
        assert not waiting.begun.is_set()
    finally:
        driver.answers.set()
        for work in works:
            work.release.set()


@pytest.mark.usefixtures("asks_soon", "impatient")
async def test_driver_that_hangs_while_it_opens_a_session_for_what_was_cancelled_is_killed() -> None:
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


@pytest.mark.usefixtures("asks_soon", "impatient")
async def test_driver_that_answers_is_left_alone_by_those_who_wait_behind_what_was_cancelled() -> None:
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


@pytest.mark.usefixtures("asks_soon")
async def test_driver_that_answers_is_left_alone_however_long_the_work_takes() -> None:
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
