"""Saying anew who we are (KIP-368): when, how often, and where that does not go well. The embedded broker, virtual
time."""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from itertools import pairwise
from typing import Any

import pytest
import trio
from kafka.protocol.metadata import MetadataRequest
from trio.testing import MockClock

from sarameya import (
    AuthenticationError,
    Claim,
    Config,
    ConnectionLostError,
    Event,
    Message,
    RequestTimeoutError,
    Session,
    TokenError,
)
from sarameya.embedded import SaslConfig
from sarameya.embedded.sasl import authenticator, mechanisms
from sarameya.net.broker_pool import BrokerPool, Purpose, open_broker_pool
from sarameya.observe import ConnectionLost, RenewalFailed, Retrying, SessionStarted, WeakSecurity, event_level
from sarameya.protocol.versions import Api
from tests.group.kit import Recorder, deadline, eventually, start_member
from tests.net.test_authentication import ALICE, HOST, ask, asking, config, member, reached


def known(lifetime: float) -> SaslConfig:
    return SaslConfig(users={"alice": "sesame"}, tokens={"good": "alice"}, lifetime=lifetime)


def told(events: list[Event]) -> list[Event]:
    return [event for event in events if not isinstance(event, WeakSecurity)]


@asynccontextmanager
async def counted(sasl: SaslConfig, options: Config) -> AsyncIterator[tuple[BrokerPool, Counter[str]]]:
    """A pool, and how often which of its requests was answered."""
    answers: Counter[str] = Counter()

    def answered(request: str, seconds: float) -> None:
        answers[request] += 1

    async with (
        asking(sasl) as cluster,
        open_broker_pool([f"{HOST}:9092"], options, lambda _: None, cluster.transport, answered) as pool,
    ):
        yield pool, answers


class TestOnTime:
    async def test_is_before_the_session_ends_without_other_requests(self, autojump_clock: MockClock) -> None:
        sasl = SaslConfig(users={"alice": "sesame"}, lifetime=10.0)
        async with reached(sasl, config("SCRAM-SHA-256")) as (pool, events):
            for _ in range(1000):
                await ask(pool)
                await trio.sleep(0.1)
            connection = await pool.connection(-1, Purpose.METADATA)
            assert connection.is_open
        assert not [event for event in events if isinstance(event, ConnectionLost)]

    async def test_that_fails_ends_the_connection_and_is_told(self, autojump_clock: MockClock) -> None:
        sasl = SaslConfig(users={"alice": "sesame"}, lifetime=10.0)
        told: list[AuthenticationError] = []
        async with reached(sasl, config()) as (pool, _):
            with pool.refusals(told.append):
                connection = await pool.connection(-1, Purpose.METADATA)
                sasl.users["alice"] = "simsim"
                await trio.sleep(10)
            assert not connection.is_open
        assert ["was refused" in str(error) for error in told] == [True]

    async def test_under_way_when_the_connection_closes_is_no_loss(self, autojump_clock: MockClock) -> None:
        sasl = SaslConfig(users={"alice": "sesame"}, lifetime=10.0)
        events: list[Event] = []
        async with (
            asking(sasl) as cluster,
            open_broker_pool([f"{HOST}:9092"], config(), events.append, cluster.transport) as pool,
        ):
            await ask(pool)
            cluster.drop_next(Api.SASL_HANDSHAKE, hang_up=False)
            await trio.sleep(9.9)
            assert cluster.faults == ()
            pool.close_connection(-1, Purpose.METADATA)
            await trio.sleep(1)
        assert [event for event in events if not isinstance(event, WeakSecurity)] == []

    async def test_late_token_is_waited_for_within_the_session(self, autojump_clock: MockClock) -> None:
        asked: list[float] = []

        async def source() -> str:
            asked.append(trio.current_time())
            if 1 < len(asked) < 4:
                raise ConnectionError("away")
            return "good"

        sasl = SaslConfig(tokens={"good": "alice"}, lifetime=100.0)
        async with reached(sasl, config("OAUTHBEARER", sasl_token=source)) as (pool, _):
            await ask(pool)
            connection = await pool.connection(-1, Purpose.METADATA)
            await trio.sleep(101)
            assert connection.is_open
            assert len(asked) == 4


async def test_a_group_consumes_while_its_connections_are_renewed(autojump_clock: MockClock) -> None:
    sasl = SaslConfig(users={"alice": "sesame"}, lifetime=5.0)
    handler = Recorder()
    async with asking(sasl) as cluster:
        options = config("SCRAM-SHA-512", offset_initial="oldest")
        async with (
            deadline(200),
            member(cluster, options) as group,
        ):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(group.consume, ["t"], handler)
                for number in range(60):
                    cluster.produce("t", 0, b"%d" % number)
                    await trio.sleep(1)
                group.close_nowait()
    assert [message.value for message in handler.messages] == [b"%d" % number for number in range(60)]


async def test_renewal_waits_behind_a_join_that_is_held(autojump_clock: MockClock) -> None:
    """Answers come in the order of the requests: behind a join there is none while the join has none."""
    held = 100.0

    async def slow(session: Session, claim: Claim, message: Message) -> None:
        await trio.sleep(held)

    sasl = SaslConfig(users={"alice": "sesame"}, lifetime=10.0)
    secured = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "SCRAM-SHA-256", **ALICE}
    options = {"topics": ("t",), "rebalance_timeout": 300.0, "claim_grace": 200.0, **secured}
    async with asking(sasl) as cluster, deadline(1000) as nursery:
        cluster.produce("t", 0, b"slowly")
        handler = Recorder(slow)
        first = await start_member(nursery, cluster, handler, **options)
        await eventually(lambda: bool(handler.messages))
        began = trio.current_time()
        second = await start_member(nursery, cluster, Recorder(), **options)
        await eventually(lambda: bool(second.seen(SessionStarted)))
        assert trio.current_time() == pytest.approx(began + held, abs=5.0)
        for running in (first, second):
            assert not running.seen(ConnectionLost)
            assert not running.seen(Retrying)
            await running.close()


class TestOften:
    """Kafka's brokers renew a connection's session once a second."""

    @pytest.mark.parametrize("lifetime", [0.001, 0.5, 1.2])
    async def test_too_short_sessions_are_not_renewed_constantly(
        self, lifetime: float, autojump_clock: MockClock
    ) -> None:
        async with counted(known(lifetime), config()) as (pool, answers):
            await ask(pool)
            connection = await pool.connection(-1, Purpose.METADATA)
            await trio.sleep(60)
            assert connection.is_open
        assert 30 < answers["SaslHandshakeRequest"] <= 41

    async def test_requests_wait_for_the_session_after_a_short_one(self, autojump_clock: MockClock) -> None:
        async with counted(known(1.0), config()) as (pool, answers):
            for _ in range(300):
                await ask(pool)
                await trio.sleep(0.1)
            assert answers["SaslHandshakeRequest"] == pytest.approx(trio.current_time() / 1.5, rel=0.1)

    async def test_a_group_consumes_by_tokens_that_are_used_to_their_end(self, autojump_clock: MockClock) -> None:
        """The source keeps each token until it expires, so sessions last only for the rest of it."""
        sasl = SaslConfig(lifetime=5.0)
        goes = 0.0

        async def cached() -> str:
            nonlocal goes
            if goes <= trio.current_time():
                goes = trio.current_time() + 12
                sasl.tokens[f"until-{goes}"] = "alice"
            sasl.lifetime = min(5.0, goes - trio.current_time())
            return f"until-{goes}"

        handler = Recorder()
        async with asking(sasl) as cluster, deadline(200) as nursery:
            options = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "OAUTHBEARER", "sasl_token": cached}
            running = await start_member(nursery, cluster, handler, topics=("t",), **options)
            for number in range(120):
                cluster.produce("t", 0, b"%d" % number)
                await trio.sleep(1)
            assert not running.seen(ConnectionLost)
            await running.close()
            assert running.error is None
        assert handler.values() == [b"%d" % number for number in range(120)]

    async def test_a_group_consumes_before_a_broker_that_renews_nothing(
        self, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(authenticator, "_REAUTHENTICATION_INTERVAL", 1000.0)  # but once
        handler = Recorder()
        async with asking(known(5.0)) as cluster, deadline(200) as nursery:
            options = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "PLAIN", **ALICE}
            running = await start_member(nursery, cluster, handler, topics=("t",), **options)
            for number in range(60):
                cluster.produce("t", 0, b"%d" % number)
                await trio.sleep(1)
            await running.close()
            assert running.error is None
        assert handler.values() == [b"%d" % number for number in range(60)]

    async def test_renewal_refused_for_now_ends_only_its_connection(
        self, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(authenticator, "_REAUTHENTICATION_INTERVAL", 1000.0)
        refused: list[AuthenticationError] = []
        async with reached(known(5.0), config()) as (pool, _):
            with pool.refusals(refused.append):
                connection = await pool.connection(-1, Purpose.METADATA)
                await trio.sleep(10)
                assert isinstance(connection.cause_of_end, ConnectionLostError)
                assert (
                    str(connection.cause_of_end) == f"{HOST}:9092: the broker does not renew this connection's session"
                )
                await ask(pool)
        assert refused == []


class TestHostileBrokers:
    async def test_exchange_without_an_end_is_left(
        self, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        heard = 0

        def endless(tokens: object) -> Iterator[bytes]:
            nonlocal heard
            while True:
                yield b"" if not heard else b"and?"
                heard += 1

        async def source() -> str:
            return "good"

        async with reached(known(10.0), config("OAUTHBEARER", sasl_token=source)) as (pool, _):
            connection = await pool.connection(-1, Purpose.METADATA)
            monkeypatch.setattr(mechanisms, "oauthbearer", endless)
            await trio.sleep(10)
            assert isinstance(connection.cause_of_end, AuthenticationError)
            assert "did not finish after 8 messages" in str(connection.cause_of_end)
        assert heard == 8

    async def test_request_waits_for_a_renewal_as_long_as_it_may_take(self, autojump_clock: MockClock) -> None:
        async with (
            asking(known(10.0)) as cluster,
            open_broker_pool([f"{HOST}:9092"], config(), lambda _: None, cluster.transport) as pool,
        ):
            await ask(pool)
            cluster.drop_next(Api.SASL_HANDSHAKE, hang_up=False)
            await trio.sleep(9.9)
            began = trio.current_time()
            with pytest.raises(RequestTimeoutError, match=f"{HOST}:9092: MetadataRequest waited for 3 s to be sent"):
                await pool.request(-1, Purpose.METADATA, MetadataRequest, 3.0, topics=[])
            assert trio.current_time() == pytest.approx(began + 3)


class TestNothingToShow:
    """Tokens that cannot be had."""

    async def test_is_reported_and_retried_until_the_sessions_end(self, autojump_clock: MockClock) -> None:
        asked: list[float] = []

        async def source() -> str:
            asked.append(trio.current_time())
            if len(asked) > 1:
                raise ConnectionError("away")
            return "good"

        async with reached(known(3600.0), config("OAUTHBEARER", sasl_token=source)) as (pool, events):
            connection = await pool.connection(-1, Purpose.METADATA)
            await trio.sleep(3599.4)
            assert connection.is_open
            await trio.sleep(0.2)
            assert isinstance(connection.cause_of_end, TokenError)
            assert "sasl_token raised ConnectionError: away" in str(connection.cause_of_end)
        failed = told(events)
        assert all(isinstance(event, RenewalFailed) and event_level(event) == logging.WARNING for event in failed)
        assert [event.left for event in failed if isinstance(event, RenewalFailed)] == pytest.approx(
            [3600 - at for at in asked[1:]]
        )
        assert 8 < len(failed) < 30
        # Most of the time is passed at an easy pace, and the last tries come no faster than the backoff has them.
        assert min(after - before for before, after in pairwise(asked[1:-1])) >= 0.08

    async def test_is_no_reason_to_end_while_there_is_one_in_time(self, autojump_clock: MockClock) -> None:
        away = True

        async def source() -> str:
            if trio.current_time() > 1 and away:
                raise ConnectionError("away")
            return "good"

        async with reached(known(60.0), config("OAUTHBEARER", sasl_token=source)) as (pool, events):
            await ask(pool)
            await trio.sleep(58)
            assert [type(event) for event in told(events)] == [RenewalFailed] * len(told(events)) != []
            away = False
            await trio.sleep(3)
            await ask(pool)
            assert all(isinstance(event, RenewalFailed) for event in told(events))

    @pytest.mark.parametrize("kind", ["function", "async"])
    async def test_source_that_does_not_answer_is_given_up(self, kind: str, autojump_clock: MockClock) -> None:
        with hung() as sources:
            options = config("OAUTHBEARER", sasl_token=sources[kind], connect_timeout=3.0)
            async with reached(known(10.0), options) as (pool, _):
                for _ in range(20):
                    began = trio.current_time()
                    with pytest.raises(TokenError, match=r"^sasl_token returned nothing within 3 s$"):
                        await ask(pool)
                    assert trio.current_time() == pytest.approx(began + 3)

    @pytest.mark.parametrize("kind", ["function", "async"])
    async def test_silent_token_source_ends_with_its_caller(self, kind: str, autojump_clock: MockClock) -> None:
        with hung() as sources:
            async with asking(known(10.0)) as cluster:
                with trio.move_on_after(1):
                    async with member(cluster, config("OAUTHBEARER", sasl_token=sources[kind])) as group:
                        await group.consume(["t"], Recorder())
                assert trio.current_time() == pytest.approx(1.0)

    @pytest.mark.parametrize("kind", ["function", "async"])
    async def test_source_that_does_not_answer_at_a_renewal(
        self, kind: str, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        in_thread = trio.to_thread.run_sync
        is_first = True

        async def first_here(function: Callable[[], Any], **options: Any) -> Any:
            nonlocal is_first
            if is_first:  # in no time; threads take some that this clock does not know of
                is_first = False
                return "good"
            return await in_thread(function, **options)

        async def later() -> Any:
            return await first_here(blocks) if is_first else await sources["async"]()

        with hung() as sources:
            blocks = sources["function"]
            monkeypatch.setattr(trio.to_thread, "run_sync", first_here)
            source = blocks if kind == "function" else later
            options = config("OAUTHBEARER", sasl_token=source, connect_timeout=3.0)
            async with reached(known(100.0), options) as (pool, events):
                await ask(pool)
                connection = await pool.connection(-1, Purpose.METADATA)
                await trio.sleep(99)
                assert connection.is_open
                await ask(pool)
                await trio.sleep(1.1)  # the last try may last to the session's end
                assert isinstance(connection.cause_of_end, TokenError)
                assert "sasl_token returned nothing within 3 s" in str(told(events)[0])
                assert not [event for event in told(events) if isinstance(event, ConnectionLost)]


@contextmanager
def hung() -> Iterator[dict[str, Callable[[], Any]]]:
    """Functions that do not come back, by their kind; those in threads do at the end of the block."""
    over = threading.Event()

    def blocks() -> str:
        over.wait()
        return "good"

    try:
        yield {"function": blocks, "async": trio.sleep_forever}
    finally:
        over.set()
