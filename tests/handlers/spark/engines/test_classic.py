"""Sessions of a SparkContext. It and its JVM are faked."""

from __future__ import annotations

from typing import Any

import attrs
import pytest
from py4j.protocol import Py4JNetworkError

from sarameya_handlers.spark.engines.classic import DEATH_TIMEOUT, ClassicDriver, is_users_spark
from sarameya_handlers.spark.errors import SparkGoneError


@attrs.define(eq=False)
class FakeContext:
    """A SparkContext. Each call to its JVM raises `error`, if that is set."""

    stopped: bool = False
    error: Exception | None = None
    tags: list[str] = attrs.field(factory=list)
    cancelled: list[str] = attrs.field(factory=list)

    @property
    def _jsc(self) -> Any:
        return self

    def sc(self) -> Any:
        self._call()
        return self

    def isStopped(self) -> bool:
        return self.stopped

    def addJobTag(self, tag: str) -> None:
        self._call()
        self.tags.append(tag)

    def removeJobTag(self, tag: str) -> None:
        self._call()
        self.tags.remove(tag)

    def cancelJobsWithTag(self, tag: str) -> None:
        self.cancelled.append(tag)

    def _call(self) -> None:
        if self.error is not None:
            raise self.error


@attrs.define(eq=False)
class FakeSession:
    sparkContext: FakeContext
    _jsparkSession: Any = attrs.field(default=None, alias="_jsparkSession")
    conf: FakeConf = attrs.field(factory=lambda: FakeConf())

    @classmethod
    def base(cls) -> FakeSession:
        return cls(FakeContext(), FakeJavaSession(7))


class FakeConf(dict[str, str]):
    set = dict.__setitem__

    @property
    def getAll(self) -> dict[str, str]:
        return dict(self)


@attrs.define(eq=False)
class FakeJavaSession:
    partitions: int

    def cloneSession(self) -> FakeJavaSession:
        return FakeJavaSession(self.partitions)


@attrs.define(eq=False)
class FakeJvm:
    """A JVM that this process has started. It has died, or dies while `death` waits."""

    has_died: bool = False
    dies_within: bool = False
    death_timeouts: list[float] = attrs.field(factory=list)
    stopped_as_dead: bool | None = None
    killed: bool = False

    def death(self, within: float) -> str | None:
        self.death_timeouts.append(within)
        return "Spark's JVM has died (exit code -9)" if self.has_died or (self.dies_within and within) else None

    def stop(self, *, is_dead: bool = False) -> None:
        self.stopped_as_dead = is_dead

    def kill(self) -> None:
        self.killed = True

    def expect_errors(self, seconds: float) -> None:
        pass


def test_sessions_are_clones_of_the_base() -> None:
    base = FakeSession.base()
    session = ClassicDriver(base).open_session()
    assert session.sparkContext is base.sparkContext
    assert session._jsparkSession is not base._jsparkSession
    assert session._jsparkSession.partitions == 7
    assert is_users_spark(session), "the JVM is the user's, who may be using the base session"


def test_session_of_an_own_jvm_is_not_the_users() -> None:
    assert not is_users_spark(ClassicDriver(FakeSession.base(), FakeJvm()).open_session())


def test_work_is_cancelled_by_its_tag() -> None:
    base = FakeSession.base()
    driver = ClassicDriver(base)
    with driver.tagged(base, "t1"):
        assert base.sparkContext.tags == ["t1"]
    assert base.sparkContext.tags == []
    driver.cancel(base, "t1")
    assert base.sparkContext.cancelled == ["t1"]


def test_dying_spark_does_not_hide_the_error_of_work() -> None:
    base = FakeSession.base()

    def work() -> None:
        with ClassicDriver(base).tagged(base, "t1"):
            base.sparkContext.error = Py4JNetworkError("gone")
            raise OSError("mine")

    with pytest.raises(OSError, match="mine"):
        work()


def test_responding_spark_is_alive() -> None:
    jvm = FakeJvm()
    assert ClassicDriver(FakeSession.base(), jvm).death(FakeSession.base()) is None
    assert jvm.death_timeouts == []


def test_stopped_context_is_dead() -> None:
    base = FakeSession.base()
    base.sparkContext.stopped = True
    assert ClassicDriver(base).death(base) == "Spark's context has been stopped"


def test_context_stopped_through_pyspark_is_dead() -> None:
    class Stopped:
        _jsc = None

    assert ClassicDriver(FakeSession.base()).death(FakeSession(Stopped())) == "Spark's context has been stopped"


@pytest.mark.parametrize("error", [Py4JNetworkError("gone"), ConnectionRefusedError(111, "Connection refused")])
def test_own_jvm_gets_time_to_exit_after_a_broken_connection(error: Exception) -> None:
    base, jvm = FakeSession.base(), FakeJvm(dies_within=True)
    base.sparkContext.error = error
    assert ClassicDriver(base, jvm).death(base) == "Spark's JVM has died (exit code -9)"
    assert jvm.death_timeouts == [DEATH_TIMEOUT]


def test_adopted_jvm_that_does_not_respond_is_dead() -> None:
    base = FakeSession.base()
    base.sparkContext.error = ConnectionRefusedError(111, "Connection refused")
    cause = ClassicDriver(base).death(base)
    assert cause is not None
    assert cause.startswith("Spark's JVM does not answer (ConnectionRefusedError")


def test_stopped_spark_opens_no_session() -> None:
    base = FakeSession.base()
    base._jsparkSession = None
    base.sparkContext.stopped = True
    with pytest.raises(SparkGoneError, match="has been stopped") as raised:
        ClassicDriver(base).open_session()
    assert not raised.value.begun


@pytest.mark.parametrize("found_dead", [True, False])
def test_known_death_is_not_logged_again_on_stop(found_dead: bool) -> None:
    base, jvm = FakeSession.base(), FakeJvm(has_died=True)
    driver = ClassicDriver(base, jvm)
    if found_dead:
        driver.death(base)
    driver.stop()
    assert jvm.stopped_as_dead is found_dead


def test_adopted_spark_is_neither_stopped_nor_killed() -> None:
    base = FakeSession.base()
    driver = ClassicDriver(base)
    driver.stop()
    driver.kill()
    driver.expect_errors(1.0)
    driver.close_session(base)
    assert not base.sparkContext.stopped
