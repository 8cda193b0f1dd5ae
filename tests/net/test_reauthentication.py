"""Re-authentication (KIP-368): its time, its rate and its failures. The embedded broker, virtual time."""

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
from tests.net.test_authentication import ALICE, HOST, cluster_with, config, group_of, open_pool, request_metadata


def alice_for(lifetime: float) -> SaslConfig:
    return SaslConfig(users={"alice": "sesame"}, tokens={"good": "alice"}, lifetime=lifetime)


def without_warnings(events: list[Event]) -> list[Event]:
    return [event for event in events if not isinstance(event, WeakSecurity)]


@asynccontextmanager
async def counted(sasl: SaslConfig, options: Config) -> AsyncIterator[tuple[BrokerPool, Counter[str]]]:
    """Yield a pool, and the number of responses to each kind of its requests."""
    answers: Counter[str] = Counter()

    def answered(request: str, seconds: float) -> None:
        answers[request] += 1

    async with (
        cluster_with(sasl) as cluster,
        open_broker_pool([f"{HOST}:9092"], options, lambda _: None, cluster.transport, answered) as pool,
    ):
        yield pool, answers


class TestRenewals:
    async def test_renewal_comes_before_the_session_ends(self, autojump_clock: MockClock) -> None:
        sasl = SaslConfig(users={"alice": "sesame"}, lifetime=10.0)
        async with open_pool(sasl, config("SCRAM-SHA-256")) as (pool, events):
            for _ in range(1000):
                await request_metadata(pool)
                await trio.sleep(0.1)
            connection = await pool.connection(-1, Purpose.METADATA)
            assert connection.is_open
        assert not [event for event in events if isinstance(event, ConnectionLost)]

    async def test_refused_renewal_ends_the_connection_and_is_reported(self, autojump_clock: MockClock) -> None:
        sasl = SaslConfig(users={"alice": "sesame"}, lifetime=10.0)
        reported: list[AuthenticationError] = []
        async with open_pool(sasl, config()) as (pool, _):
            with pool.refusals(reported.append):
                connection = await pool.connection(-1, Purpose.METADATA)
                sasl.users["alice"] = "simsim"
                await trio.sleep(10)
            assert not connection.is_open
        assert ["was refused" in str(error) for error in reported] == [True]

    async def test_closing_during_a_renewal_reports_no_lost_connection(self, autojump_clock: MockClock) -> None:
        sasl = SaslConfig(users={"alice": "sesame"}, lifetime=10.0)
        events: list[Event] = []
        async with (
            cluster_with(sasl) as cluster,
            open_broker_pool([f"{HOST}:9092"], config(), events.append, cluster.transport) as pool,
        ):
            await request_metadata(pool)
            cluster.drop_next(Api.SASL_HANDSHAKE, hang_up=False)
            await trio.sleep(9.9)
            assert cluster.faults == ()
            pool.close_connection(-1, Purpose.METADATA)
            await trio.sleep(1)
        assert [event for event in events if not isinstance(event, WeakSecurity)] == []

    async def test_token_source_is_retried_within_the_session(self, autojump_clock: MockClock) -> None:
        calls: list[float] = []

        async def source() -> str:
            calls.append(trio.current_time())
            if 1 < len(calls) < 4:
                raise ConnectionError("away")
            return "good"

        sasl = SaslConfig(tokens={"good": "alice"}, lifetime=100.0)
        async with open_pool(sasl, config("OAUTHBEARER", sasl_token=source)) as (pool, _):
            await request_metadata(pool)
            connection = await pool.connection(-1, Purpose.METADATA)
            await trio.sleep(101)
            assert connection.is_open
            assert len(calls) == 4


async def test_group_consumes_while_its_sessions_are_renewed(autojump_clock: MockClock) -> None:
    sasl = SaslConfig(users={"alice": "sesame"}, lifetime=5.0)
    handler = Recorder()
    async with cluster_with(sasl) as cluster:
        options = config("SCRAM-SHA-512", offset_initial="oldest")
        async with (
            deadline(200),
            group_of(cluster, options) as group,
        ):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(group.consume, ["t"], handler)
                for number in range(60):
                    cluster.produce("t", 0, b"%d" % number)
                    await trio.sleep(1)
                group.close_nowait()
    assert [message.value for message in handler.messages] == [b"%d" % number for number in range(60)]


async def test_renewal_waits_behind_a_held_join(autojump_clock: MockClock) -> None:
    """Responses come in the order of the requests: none comes before the response to a held join."""
    held = 100.0

    async def slow(session: Session, claim: Claim, message: Message) -> None:
        await trio.sleep(held)

    sasl = SaslConfig(users={"alice": "sesame"}, lifetime=10.0)
    secured = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "SCRAM-SHA-256", **ALICE}
    options = {"topics": ("t",), "rebalance_timeout": 300.0, "claim_grace": 200.0, **secured}
    async with cluster_with(sasl) as cluster, deadline(1000) as nursery:
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


class TestShortSessions:
    """Kafka's brokers renew a connection's session at most once a second."""

    @pytest.mark.parametrize("lifetime", [0.001, 0.5, 1.2])
    async def test_too_short_sessions_are_not_renewed_constantly(
        self, lifetime: float, autojump_clock: MockClock
    ) -> None:
        async with counted(alice_for(lifetime), config()) as (pool, answers):
            await request_metadata(pool)
            connection = await pool.connection(-1, Purpose.METADATA)
            await trio.sleep(60)
            assert connection.is_open
        assert 30 < answers["SaslHandshakeRequest"] <= 41

    async def test_requests_wait_for_the_session_after_a_short_one(self, autojump_clock: MockClock) -> None:
        async with counted(alice_for(1.0), config()) as (pool, answers):
            for _ in range(300):
                await request_metadata(pool)
                await trio.sleep(0.1)
            assert answers["SaslHandshakeRequest"] == pytest.approx(trio.current_time() / 1.5, rel=0.1)

    async def test_group_consumes_with_tokens_used_until_they_expire(self, autojump_clock: MockClock) -> None:
        """The source keeps each token until it expires, so a session may last only for the rest of its time."""
        sasl = SaslConfig(lifetime=5.0)
        goes = 0.0  # the time at which the cached token expires

        async def cached() -> str:
            nonlocal goes
            if goes <= trio.current_time():
                goes = trio.current_time() + 12
                sasl.tokens[f"until-{goes}"] = "alice"
            sasl.lifetime = min(5.0, goes - trio.current_time())
            return f"until-{goes}"

        handler = Recorder()
        async with cluster_with(sasl) as cluster, deadline(200) as nursery:
            options = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "OAUTHBEARER", "sasl_token": cached}
            running = await start_member(nursery, cluster, handler, topics=("t",), **options)
            for number in range(120):
                cluster.produce("t", 0, b"%d" % number)
                await trio.sleep(1)
            assert not running.seen(ConnectionLost)
            await running.close()
            assert running.error is None
        assert handler.values() == [b"%d" % number for number in range(120)]

    async def test_group_consumes_although_the_broker_renews_no_session(
        self, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(authenticator, "_REAUTHENTICATION_INTERVAL", 1000.0)  # at most one renewal
        handler = Recorder()
        async with cluster_with(alice_for(5.0)) as cluster, deadline(200) as nursery:
            options = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "PLAIN", **ALICE}
            running = await start_member(nursery, cluster, handler, topics=("t",), **options)
            for number in range(60):
                cluster.produce("t", 0, b"%d" % number)
                await trio.sleep(1)
            await running.close()
            assert running.error is None
        assert handler.values() == [b"%d" % number for number in range(60)]

    async def test_temporarily_refused_renewal_ends_only_its_connection(
        self, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(authenticator, "_REAUTHENTICATION_INTERVAL", 1000.0)
        refused: list[AuthenticationError] = []
        async with open_pool(alice_for(5.0), config()) as (pool, _):
            with pool.refusals(refused.append):
                connection = await pool.connection(-1, Purpose.METADATA)
                await trio.sleep(10)
                assert isinstance(connection.cause_of_end, ConnectionLostError)
                assert (
                    str(connection.cause_of_end) == f"{HOST}:9092: the broker does not renew this connection's session"
                )
                await request_metadata(pool)
        assert refused == []


class TestHostileBrokers:
    async def test_endless_exchange_is_aborted(
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

        async with open_pool(alice_for(10.0), config("OAUTHBEARER", sasl_token=source)) as (pool, _):
            connection = await pool.connection(-1, Purpose.METADATA)
            monkeypatch.setattr(mechanisms, "oauthbearer", endless)
            await trio.sleep(10)
            assert isinstance(connection.cause_of_end, AuthenticationError)
            assert "did not finish after 8 messages" in str(connection.cause_of_end)
        assert heard == 8

    async def test_request_waits_for_a_renewal_until_its_timeout(self, autojump_clock: MockClock) -> None:
        async with (
            cluster_with(alice_for(10.0)) as cluster,
            open_broker_pool([f"{HOST}:9092"], config(), lambda _: None, cluster.transport) as pool,
        ):
            await request_metadata(pool)
            cluster.drop_next(Api.SASL_HANDSHAKE, hang_up=False)
            await trio.sleep(9.9)
            began = trio.current_time()
            with pytest.raises(RequestTimeoutError, match=f"{HOST}:9092: MetadataRequest waited for 3 s to be sent"):
                await pool.request(-1, Purpose.METADATA, MetadataRequest, 3.0, topics=[])
            assert trio.current_time() == pytest.approx(began + 3)


class TestFailingTokenSources:
    """Token sources that raise or do not return."""

    async def test_failure_is_retried_until_the_session_ends(self, autojump_clock: MockClock) -> None:
        calls: list[float] = []

        async def source() -> str:
            calls.append(trio.current_time())
            if len(calls) > 1:
                raise ConnectionError("away")
            return "good"

        async with open_pool(alice_for(3600.0), config("OAUTHBEARER", sasl_token=source)) as (pool, events):
            connection = await pool.connection(-1, Purpose.METADATA)
            await trio.sleep(3599.4)
            assert connection.is_open
            await trio.sleep(0.2)
            assert isinstance(connection.cause_of_end, TokenError)
            assert "sasl_token raised ConnectionError: away" in str(connection.cause_of_end)
        failed = without_warnings(events)
        assert all(isinstance(event, RenewalFailed) and event_level(event) == logging.WARNING for event in failed)
        assert [event.left for event in failed if isinstance(event, RenewalFailed)] == pytest.approx(
            [3600 - at for at in calls[1:]]
        )
        assert 8 < len(failed) < 30
        # The last attempts come no faster than the backoff allows; most attempts are further apart.
        assert min(after - before for before, after in pairwise(calls[1:-1])) >= 0.08

    async def test_source_that_recovers_in_time_keeps_the_connection(self, autojump_clock: MockClock) -> None:
        away = True

        async def source() -> str:
            if trio.current_time() > 1 and away:
                raise ConnectionError("away")
            return "good"

        async with open_pool(alice_for(60.0), config("OAUTHBEARER", sasl_token=source)) as (pool, events):
            await request_metadata(pool)
            await trio.sleep(58)
            assert (
                [type(event) for event in without_warnings(events)]
                == [RenewalFailed] * len(without_warnings(events))
                != []
            )
            away = False
            await trio.sleep(3)
            await request_metadata(pool)
            assert all(isinstance(event, RenewalFailed) for event in without_warnings(events))

    @pytest.mark.parametrize("kind", ["function", "async"])
    async def test_hanging_source_fails_at_the_connect_timeout(self, kind: str, autojump_clock: MockClock) -> None:
        with hanging_sources() as sources:
            options = config("OAUTHBEARER", sasl_token=sources[kind], connect_timeout=3.0)
            async with open_pool(alice_for(10.0), options) as (pool, _):
                for _ in range(20):
                    began = trio.current_time()
                    with pytest.raises(TokenError, match=r"^sasl_token returned nothing within 3 s$"):
                        await request_metadata(pool)
                    assert trio.current_time() == pytest.approx(began + 3)

    @pytest.mark.parametrize("kind", ["function", "async"])
    async def test_hanging_source_is_cancelled_with_its_caller(self, kind: str, autojump_clock: MockClock) -> None:
        with hanging_sources() as sources:
            async with cluster_with(alice_for(10.0)) as cluster:
                with trio.move_on_after(1):
                    async with group_of(cluster, config("OAUTHBEARER", sasl_token=sources[kind])) as group:
                        await group.consume(["t"], Recorder())
                assert trio.current_time() == pytest.approx(1.0)

    @pytest.mark.parametrize("kind", ["function", "async"])
    async def test_source_that_hangs_at_a_renewal_is_reported(
        self, kind: str, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        in_thread = trio.to_thread.run_sync
        is_first = True

        async def first_here(function: Callable[[], Any], **options: Any) -> Any:
            nonlocal is_first
            if is_first:  # takes no time; the virtual clock does not see the time of a thread
                is_first = False
                return "good"
            return await in_thread(function, **options)

        async def later() -> Any:
            return await first_here(blocks) if is_first else await sources["async"]()

        with hanging_sources() as sources:
            blocks = sources["function"]
            monkeypatch.setattr(trio.to_thread, "run_sync", first_here)
            source = blocks if kind == "function" else later
            options = config("OAUTHBEARER", sasl_token=source, connect_timeout=3.0)
            async with open_pool(alice_for(100.0), options) as (pool, events):
                await request_metadata(pool)
                connection = await pool.connection(-1, Purpose.METADATA)
                await trio.sleep(99)
                assert connection.is_open
                await request_metadata(pool)
                await trio.sleep(1.1)  # the last attempt may take until the session ends
                assert isinstance(connection.cause_of_end, TokenError)
                assert "sasl_token returned nothing within 3 s" in str(without_warnings(events)[0])
                assert not [event for event in without_warnings(events) if isinstance(event, ConnectionLost)]


@contextmanager
def hanging_sources() -> Iterator[dict[str, Callable[[], Any]]]:
    """Yield token sources that do not return, by kind; those in threads return at the end of the block."""
    block_ended = threading.Event()

    def blocks() -> str:
        block_ended.wait()
        return "good"

    try:
        yield {"function": blocks, "async": trio.sleep_forever}
    finally:
        block_ended.set()
