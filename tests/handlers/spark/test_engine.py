"""The engines' threads, cancellation and sharing. Spark is faked, threads are real."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import attrs
import pytest
import trio
import trio.testing

from sarameya import HandlerError
from sarameya_handlers import LandingError, SparkOptions
from sarameya_handlers.spark import engine as engine_module
from sarameya_handlers.spark import jvm
from sarameya_handlers.spark.engine import AdoptedEngine, SparkEngine


class FakeContext:
    """A SparkContext that knows tags; `cancelled` is set when any is cancelled."""

    def __init__(self) -> None:
        self.tags = threading.local()
        self.cancelled = threading.Event()
        self.cancelled_tags: list[str] = []

    def current(self) -> set[str]:
        return self.tags.__dict__.setdefault("set", set())

    def addJobTag(self, tag: str) -> None:
        self.current().add(tag)

    def removeJobTag(self, tag: str) -> None:
        self.current().discard(tag)

    def cancelJobsWithTag(self, tag: str) -> None:
        self.cancelled_tags.append(tag)
        self.cancelled.set()


@attrs.define
class FakeSparkSession:
    sparkContext: FakeContext = attrs.field(factory=FakeContext)


async def test_run_tags_the_work_in_its_thread_and_untags_it_after() -> None:
    session = FakeSparkSession()
    async with AdoptedEngine(session, max_jobs=1) as engine:
        inside = await engine.run(lambda s, _: (set(s.sparkContext.current()), threading.current_thread()), tag="t1")
        after = await engine.run(lambda s, _: (set(s.sparkContext.current()), threading.current_thread()), tag="t2")
    assert inside[0] == {"t1"}
    assert after == ({"t2"}, inside[1])  # the same thread, so its tag was removed


async def test_run_that_raises_is_raised_and_untagged() -> None:
    session = FakeSparkSession()

    def fail(*_: object) -> None:
        raise OSError("no")

    async with AdoptedEngine(session, max_jobs=1) as engine:
        with pytest.raises(OSError, match="no"):
            await engine.run(fail, tag="t1")
        assert await engine.run(lambda s, _: set(s.sparkContext.current()), tag="t2") == {"t2"}


async def test_runs_are_bounded_by_max_jobs() -> None:
    running, most = 0, 0

    async with AdoptedEngine(FakeSparkSession(), max_jobs=2) as engine:
        entered, leave = threading.Semaphore(0), threading.Semaphore(0)

        def work(*_: object) -> None:
            nonlocal running, most
            running += 1
            most = max(most, running)
            entered.release()
            leave.acquire()
            running -= 1

        async with trio.open_nursery() as nursery:
            for n in range(4):
                nursery.start_soon(lambda n=n: engine.run(work, tag=f"t{n}"))
            for _ in range(2):
                await trio.to_thread.run_sync(entered.acquire)
            await trio.testing.wait_all_tasks_blocked()
            for _ in range(4):
                leave.release()
    assert most == 2


async def test_cancelled_run_returns_while_its_thread_is_blocked_and_cancels_the_jobs() -> None:
    session = FakeSparkSession()
    release, ended = threading.Event(), threading.Event()
    started = trio.Event()
    token = trio.lowlevel.current_trio_token()
    checkpoints: list[str] = []

    def work(_: object, checkpoint: object) -> None:
        token.run_sync_soon(started.set)
        release.wait()
        try:
            checkpoint()
        except trio.Cancelled:
            checkpoints.append("raised")
            raise
        finally:
            ended.set()

    async with AdoptedEngine(session) as engine:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(lambda: engine.run(work, tag="t1"))
            await started.wait()
            nursery.cancel_scope.cancel()
        assert session.sparkContext.cancelled_tags == ["t1"]
        assert not ended.is_set()
        release.set()
        await trio.to_thread.run_sync(ended.wait)
    assert checkpoints == ["raised"]


async def test_abandoned_thread_keeps_its_place_until_it_ends() -> None:
    session = FakeSparkSession()
    release = threading.Event()
    started = trio.Event()
    token = trio.lowlevel.current_trio_token()

    def work(*_: object) -> None:
        token.run_sync_soon(started.set)
        release.wait()

    async with AdoptedEngine(session, max_jobs=1) as engine, trio.open_nursery() as nursery:
        async with trio.open_nursery() as first:
            first.start_soon(lambda: engine.run(work, tag="t1"))
            await started.wait()
            first.cancel_scope.cancel()
        done = trio.Event()

        async def second() -> None:
            await engine.run(lambda *_: None, tag="t2")
            done.set()

        nursery.start_soon(second)
        await trio.testing.wait_all_tasks_blocked()
        assert not done.is_set()
        release.set()
        await done.wait()


def test_session_of_spark_connect_cannot_be_adopted() -> None:
    with pytest.raises(HandlerError, match="not Spark Connect's"):
        AdoptedEngine(object())


@attrs.define(eq=False)
class FakeJvm:
    """A Jvm that dies, or hangs while it is stopped, as the test says."""

    session: FakeSparkSession = attrs.field(factory=FakeSparkSession)
    has_died: bool = False
    stops: int = 0
    expected: int = 0
    hangs: bool = False
    killed: threading.Event = attrs.field(factory=threading.Event)

    def expect_errors(self, seconds: float) -> None:
        self.expected += 1

    def death(self, within: float) -> str | None:
        return "Spark's JVM has died (exit code -9; out of memory?)" if self.has_died else None

    def stop(self) -> None:
        if self.hangs:
            self.killed.wait()
        self.stops += 1

    def kill(self) -> None:
        self.killed.set()


class FakeJvms:
    """Stands for `jvm.start`; keeps what is started."""

    def __init__(self) -> None:
        self.all: list[FakeJvm] = []

    @property
    def started(self) -> int:
        return len(self.all)

    @property
    def running(self) -> int:
        return sum(1 - one.stops for one in self.all)

    def start(self, options: SparkOptions) -> FakeJvm:
        if options.app_name == "broken":
            raise HandlerError("Spark does not start")
        self.all.append(FakeJvm())
        return self.all[-1]


@pytest.fixture
def jvms(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeJvms]:
    fake = FakeJvms()
    monkeypatch.setattr(jvm, "start", fake.start)
    yield fake
    assert engine_module._shared is None


async def test_engines_of_one_process_share_one_spark_until_the_last_has_left(jvms: FakeJvms) -> None:
    async with SparkEngine(SparkOptions()):
        async with SparkEngine(SparkOptions()) as second:
            assert (jvms.started, jvms.running) == (1, 1)
            assert await second.run(lambda session, _: session, tag="t") is jvms.all[0].session
        assert jvms.running == 1
    assert jvms.running == 0


async def test_engines_that_enter_together_start_one_spark(jvms: FakeJvms) -> None:
    everyone = trio.Event()
    inside = 0

    async def use() -> None:
        nonlocal inside
        async with SparkEngine(SparkOptions()):
            inside += 1
            if inside == 5:
                everyone.set()
            await everyone.wait()

    async with trio.open_nursery() as nursery:
        for _ in range(5):
            nursery.start_soon(use)
    assert (jvms.started, jvms.running) == (1, 0)


async def test_engine_that_enters_after_the_last_has_left_starts_spark_anew(jvms: FakeJvms) -> None:
    for _ in range(2):
        async with SparkEngine(SparkOptions()):
            pass
    assert (jvms.started, jvms.running) == (2, 0)


async def test_engine_with_other_options_is_refused(jvms: FakeJvms) -> None:
    async with SparkEngine(SparkOptions(master="local[1]")):
        with pytest.raises(HandlerError, match="give all Spark sinks the same spark options"):
            async with SparkEngine(SparkOptions(master="local[2]")):
                pass
        assert jvms.running == 1


async def test_spark_that_does_not_start_is_raised_and_may_be_tried_again(jvms: FakeJvms) -> None:
    with pytest.raises(HandlerError, match="does not start"):
        async with SparkEngine(SparkOptions(app_name="broken")):
            pass
    async with SparkEngine(SparkOptions()):
        assert jvms.running == 1


async def test_cancelled_engine_stops_its_spark(jvms: FakeJvms) -> None:
    with trio.CancelScope() as scope:
        async with SparkEngine(SparkOptions()):
            scope.cancel()
            await trio.sleep_forever()
    assert jvms.running == 0


async def test_engine_that_enters_after_the_jvm_has_died_starts_another(jvms: FakeJvms) -> None:
    async with SparkEngine(SparkOptions()) as first:
        dead = jvms.all[0]
        dead.has_died = True
        async with SparkEngine(SparkOptions()) as second:
            assert (jvms.started, dead.stops) == (2, 1)
            assert await second.run(lambda session, _: session, tag="t1") is jvms.all[1].session
            assert await first.run(lambda session, _: session, tag="t2") is dead.session
    assert [one.stops for one in jvms.all] == [1, 1]


async def test_engine_of_a_dead_jvm_leaves_the_one_that_replaced_it_running(jvms: FakeJvms) -> None:
    first = await SparkEngine(SparkOptions()).__aenter__()
    jvms.all[0].has_died = True
    async with SparkEngine(SparkOptions()):
        await first.__aexit__(None, None, None)
        assert [one.stops for one in jvms.all] == [1, 0]
    assert [one.stops for one in jvms.all] == [1, 1]


async def test_work_that_fails_because_the_jvm_has_died_says_so(jvms: FakeJvms) -> None:
    def refused(*_: object) -> None:
        raise ConnectionRefusedError(111, "Connection refused")

    async with SparkEngine(SparkOptions()) as engine:
        with pytest.raises(ConnectionRefusedError):
            await engine.run(refused, tag="t1")
        jvms.all[0].has_died = True
        with pytest.raises(LandingError, match=r"JVM has died \(exit code -9; out of memory") as raised:
            await engine.run(refused, tag="t2")
        assert isinstance(raised.value.__cause__, ConnectionRefusedError)


async def test_jvm_that_hangs_while_it_stops_is_killed_in_time(
    jvms: FakeJvms, autojump_clock: trio.testing.MockClock
) -> None:
    async with SparkEngine(SparkOptions()):
        jvms.all[0].hangs = True
        began = trio.current_time()
    assert jvms.all[0].killed.is_set()
    assert trio.current_time() - began <= engine_module.STOP_TIMEOUT


async def test_cancelled_work_lets_its_jvm_expect_errors(jvms: FakeJvms) -> None:
    async with SparkEngine(SparkOptions()) as engine:
        await engine.run(lambda *_: None, tag="t1")
        assert jvms.all[0].expected == 0
        with trio.CancelScope() as scope:
            scope.cancel()
            await engine.run(lambda *_: None, tag="t2")
        assert jvms.all[0].expected == 1
