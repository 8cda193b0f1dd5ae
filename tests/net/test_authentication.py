"""SASL authentication, refusals with their messages, and changed passwords. The embedded broker, virtual time."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
from kafka.protocol.metadata import MetadataRequest
from trio.testing import MockClock

from sarameya import (
    AuthenticationError,
    Config,
    Consumer,
    ConsumerGroup,
    Event,
    GroupAdmin,
    Producer,
    Token,
    TokenError,
)
from sarameya.embedded import EmbeddedCluster, SaslConfig
from sarameya.net.broker_pool import BrokerPool, Purpose, open_broker_pool
from sarameya.observe import WeakSecurity, event_level
from sarameya.testing import run_inline, virtual_wall_clock
from tests.group.kit import Recorder, deadline

HOST = "broker-0"
ALICE = {"sasl_username": "alice", "sasl_password": "sesame"}
PASSWORD_MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")


def config(mechanism: str = "PLAIN", **options: Any) -> Config:
    credentials = {} if "sasl_token" in options else ALICE
    return Config(security_protocol="SASL_PLAINTEXT", sasl_mechanism=mechanism, **(credentials | options))


@pytest.mark.parametrize(
    ("options", "weak"),
    [
        (config("PLAIN"), ["security_protocol"]),
        (config("OAUTHBEARER", sasl_token=str), ["security_protocol"]),
        (config("SCRAM-SHA-256"), []),
        (Config(security_protocol="SSL", tls_check_hostname=False), ["tls_check_hostname"]),
        (Config(security_protocol="SASL_SSL", sasl_mechanism="PLAIN", **ALICE), []),
        (Config(), []),
    ],
)
async def test_weak_security_option_is_reported_once_per_client(
    options: Config, weak: list[str], autojump_clock: MockClock
) -> None:
    events: list[Event] = []
    async with (
        cluster_with(None) as cluster,
        ConsumerGroup(
            cluster.bootstrap_servers,
            "g",
            options,
            transport=cluster.transport,
            run_sync=run_inline,
            observers=[events.append],
        ),
    ):
        pass
    warnings = [event for event in events if isinstance(event, WeakSecurity)]
    assert [event.option for event in warnings] == weak
    assert {event_level(event) for event in warnings} <= {logging.WARNING}
    assert "sesame" not in repr(warnings)


def cluster_with(sasl: SaslConfig | None) -> EmbeddedCluster:
    return EmbeddedCluster({"t": 1}, in_memory=True, sasl=sasl, wall_clock=virtual_wall_clock)


@asynccontextmanager
async def open_pool(sasl: SaslConfig | None, options: Config) -> AsyncIterator[tuple[BrokerPool, list[Event]]]:
    events: list[Event] = []
    async with (
        cluster_with(sasl) as cluster,
        open_broker_pool([f"{HOST}:9092"], options, events.append, cluster.transport) as pool,
    ):
        yield pool, events


def group_of(cluster: EmbeddedCluster, options: Config) -> ConsumerGroup:
    return ConsumerGroup(cluster.bootstrap_servers, "g", options, transport=cluster.transport, run_sync=run_inline)


async def request_metadata(pool: BrokerPool) -> Any:
    return await pool.request(-1, Purpose.METADATA, MetadataRequest, topics=[])


async def refusal(sasl: SaslConfig | None, options: Config) -> str:
    async with open_pool(sasl, options) as (pool, _):
        with pytest.raises(AuthenticationError) as raised:
            await request_metadata(pool)
    return str(raised.value)


@pytest.mark.parametrize("mechanism", PASSWORD_MECHANISMS)
async def test_correct_password_is_accepted(mechanism: str, autojump_clock: MockClock) -> None:
    async with open_pool(SaslConfig(users={"alice": "sesame"}), config(mechanism)) as (pool, _):
        await request_metadata(pool)


@pytest.mark.parametrize("mechanism", PASSWORD_MECHANISMS)
@pytest.mark.parametrize("users", [{"alice": "simsim"}, {"bob": "sesame"}])
async def test_wrong_password_or_user_name_is_refused(
    mechanism: str, users: dict[str, str], autojump_clock: MockClock
) -> None:
    text = await refusal(SaslConfig(users=users), config(mechanism))
    assert text.startswith(f"{HOST}:9092: {mechanism} as 'alice' was refused: ")
    assert text.endswith("; correct sasl_username and sasl_password")
    assert "sesame" not in text


@pytest.mark.parametrize("mechanism", PASSWORD_MECHANISMS)
async def test_user_names_and_passwords_may_have_any_characters(mechanism: str, autojump_clock: MockClock) -> None:
    name, password = "a=b,c=2Cé\u4e2d", "p,=ä \U0001f600"
    options = config(mechanism, sasl_username=name, sasl_password=password)
    async with open_pool(SaslConfig(users={name: password}), options) as (pool, _):
        await request_metadata(pool)


async def test_unsupported_mechanism_is_refused_with_the_supported_ones(autojump_clock: MockClock) -> None:
    sasl = SaslConfig(users={"alice": "sesame"}, mechanisms=("SCRAM-SHA-512", "OAUTHBEARER"))
    assert await refusal(sasl, config("PLAIN")) == (
        f"{HOST}:9092: the broker supports OAUTHBEARER, SCRAM-SHA-512, not PLAIN; set sasl_mechanism to one of these"
    )


async def test_listener_without_authentication_is_reported(autojump_clock: MockClock) -> None:
    assert "its listener does not authenticate clients" in await refusal(None, config())


class TestTokens:
    """Tests of functions in threads, which trio's mock clock cannot see."""

    @pytest.mark.parametrize("kind", ["text", "token", "async"])
    async def test_valid_token_is_accepted(self, kind: str) -> None:
        async def later() -> Token:
            await trio.sleep(0.01)
            return Token("good")

        source: Callable[[], Any] = {"text": lambda: "good", "token": lambda: Token("good"), "async": later}[kind]
        async with open_pool(SaslConfig(tokens={"good": "alice"}), config("OAUTHBEARER", sasl_token=source)) as (
            pool,
            _,
        ):
            await request_metadata(pool)

    async def test_invalid_token_is_refused(self) -> None:
        options = config("OAUTHBEARER", sasl_token=lambda: "stolen")
        text = await refusal(SaslConfig(tokens={"good": "alice"}), options)
        assert text == (
            f'{HOST}:9092: OAUTHBEARER was refused: {{"status":"invalid_token"}}; check the token from sasl_token: '
            "is it expired, or for another audience or issuer?"
        )

    async def test_source_that_raises_is_called_again(self) -> None:
        results = [ValueError("the server is away"), "good"]

        def source() -> str:
            result = results.pop(0)
            if isinstance(result, Exception):
                raise result
            return result

        options = config("OAUTHBEARER", sasl_token=source)
        async with open_pool(SaslConfig(tokens={"good": "alice"}), options) as (pool, _):
            with pytest.raises(TokenError, match="sasl_token raised ValueError: the server is away"):
                await request_metadata(pool)
            await request_metadata(pool)

    async def test_secrets_in_the_error_of_a_source_are_masked(self) -> None:
        def source() -> str:
            raise ValueError("POST /token?client_secret=sesame&x=y: 401")

        async with open_pool(SaslConfig(tokens={"good": "alice"}), config("OAUTHBEARER", sasl_token=source)) as (
            pool,
            _,
        ):
            with pytest.raises(TokenError, match=r"ValueError: POST /token\?client_secret=\*\*\*&x=y: 401"):
                await request_metadata(pool)

    async def test_white_space_around_a_token_is_removed(self) -> None:
        options = config("OAUTHBEARER", sasl_token=lambda: "good\n")
        async with open_pool(SaslConfig(tokens={"good": "alice"}), options) as (pool, _):
            await request_metadata(pool)

    @pytest.mark.parametrize("text", ["go od", "go\udcffod"])
    async def test_token_with_illegal_characters_is_refused(self, text: str) -> None:
        options = config("OAUTHBEARER", sasl_token=lambda: text)
        async with open_pool(SaslConfig(tokens={"good": "alice"}), options) as (pool, _):
            with pytest.raises(TokenError, match=r"^sasl_token returned an invalid token: "):
                await request_metadata(pool)

    async def test_source_that_returns_no_token_is_refused(self) -> None:
        options = config("OAUTHBEARER", sasl_token=lambda: None)
        async with open_pool(SaslConfig(tokens={"good": "alice"}), options) as (pool, _):
            with pytest.raises(TokenError, match="sasl_token returned a NoneType instead of a "):
                await request_metadata(pool)


async def test_group_with_a_wrong_password_fails_at_once(autojump_clock: MockClock) -> None:
    async with cluster_with(SaslConfig(users={"alice": "simsim"})) as cluster:
        began = trio.current_time()
        async with group_of(cluster, config()) as group:
            with pytest.raises(AuthenticationError, match="PLAIN as 'alice' was refused"):
                await group.consume(["t"], Recorder())
        assert trio.current_time() - began < 1


async def test_group_ends_in_order_after_its_password_changes(autojump_clock: MockClock) -> None:
    sasl = SaslConfig(users={"alice": "sesame"}, lifetime=10.0)
    handler = Recorder()
    async with cluster_with(sasl) as cluster, deadline(60) as nursery:

        async def change() -> None:
            await trio.sleep(5)
            sasl.users["alice"] = "simsim"

        nursery.start_soon(change)
        async with group_of(cluster, config()) as group:
            with pytest.raises(AuthenticationError, match="PLAIN as 'alice' was refused"):
                await group.consume(["t"], handler)
    assert [call for call in handler.calls if call in ("setup", "cleanup")] == ["setup", "cleanup"], handler.calls


async def test_claim_without_a_group_fails_after_a_password_change(autojump_clock: MockClock) -> None:
    sasl = SaslConfig(users={"alice": "sesame"}, lifetime=10.0)
    async with (
        cluster_with(sasl) as cluster,
        Consumer(cluster.bootstrap_servers, config(), transport=cluster.transport) as reader,
    ):
        async with reader.consume_partition("t", 0, "oldest") as claim:
            sasl.users["alice"] = "simsim"
            with trio.fail_after(60), pytest.raises(AuthenticationError, match="PLAIN as 'alice' was refused"):
                await anext(aiter(claim))


async def test_consumer_with_a_wrong_password_is_refused_at_once(autojump_clock: MockClock) -> None:
    sasl = SaslConfig(users={"alice": "simsim"})
    async with (
        cluster_with(sasl) as cluster,
        Consumer(cluster.bootstrap_servers, config(), transport=cluster.transport) as reader,
    ):
        with trio.fail_after(1), pytest.raises(AuthenticationError, match="PLAIN as 'alice' was refused"):
            await reader.topic_partitions("t")


async def test_group_admin_with_a_wrong_password_is_refused_at_once(autojump_clock: MockClock) -> None:
    async with cluster_with(SaslConfig(users={"alice": "simsim"})) as cluster:
        admin = GroupAdmin(cluster.bootstrap_servers, config(), lambda event: None, transport=cluster.transport)
        with trio.fail_after(1), pytest.raises(AuthenticationError, match="PLAIN as 'alice' was refused"):
            async with admin:
                pass


async def test_group_admin_is_refused_after_a_password_change(autojump_clock: MockClock) -> None:
    sasl = SaslConfig(users={"alice": "sesame"})
    async with (
        cluster_with(sasl) as cluster,
        GroupAdmin(cluster.bootstrap_servers, config(), lambda event: None, transport=cluster.transport) as admin,
    ):
        sasl.users["alice"] = "simsim"
        cluster.disconnect()
        for call in (lambda: admin.describe("g"), lambda: admin.committed("g"), lambda: admin.metadata(["t"])):
            with trio.fail_after(1), pytest.raises(AuthenticationError, match="PLAIN as 'alice' was refused"):
                await call()


async def test_producer_with_a_wrong_password_is_refused_at_once(autojump_clock: MockClock) -> None:
    async with (
        cluster_with(SaslConfig(users={"alice": "simsim"})) as cluster,
        Producer(cluster.bootstrap_servers, config(), transport=cluster.transport) as producer,
    ):
        with trio.fail_after(1), pytest.raises(AuthenticationError, match="PLAIN as 'alice' was refused"):
            await producer.send("t", b"value")
