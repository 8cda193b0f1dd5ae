"""SASL: who is taken, who is not and what is said then, and saying it anew. The embedded broker, virtual time."""

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
async def test_what_the_options_leave_open_is_warned_of_once_a_client(
    options: Config, weak: list[str], autojump_clock: MockClock
) -> None:
    events: list[Event] = []
    async with (
        asking(None) as cluster,
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
    told = [event for event in events if isinstance(event, WeakSecurity)]
    assert [event.option for event in told] == weak
    assert {event_level(event) for event in told} <= {logging.WARNING}
    assert "sesame" not in repr(told)


def asking(sasl: SaslConfig | None) -> EmbeddedCluster:
    return EmbeddedCluster({"t": 1}, in_memory=True, sasl=sasl, wall_clock=virtual_wall_clock)


@asynccontextmanager
async def reached(sasl: SaslConfig | None, options: Config) -> AsyncIterator[tuple[BrokerPool, list[Event]]]:
    events: list[Event] = []
    async with (
        asking(sasl) as cluster,
        open_broker_pool([f"{HOST}:9092"], options, events.append, cluster.transport) as pool,
    ):
        yield pool, events


def member(cluster: EmbeddedCluster, options: Config) -> ConsumerGroup:
    return ConsumerGroup(cluster.bootstrap_servers, "g", options, transport=cluster.transport, run_sync=run_inline)


async def ask(pool: BrokerPool) -> Any:
    return await pool.request(-1, Purpose.METADATA, MetadataRequest, topics=[])


async def refusal(sasl: SaslConfig | None, options: Config) -> str:
    async with reached(sasl, options) as (pool, _):
        with pytest.raises(AuthenticationError) as raised:
            await ask(pool)
    return str(raised.value)


@pytest.mark.parametrize("mechanism", PASSWORD_MECHANISMS)
async def test_password_is_taken(mechanism: str, autojump_clock: MockClock) -> None:
    async with reached(SaslConfig(users={"alice": "sesame"}), config(mechanism)) as (pool, _):
        await ask(pool)


@pytest.mark.parametrize("mechanism", PASSWORD_MECHANISMS)
@pytest.mark.parametrize("users", [{"alice": "simsim"}, {"bob": "sesame"}])
async def test_wrong_password_or_name(mechanism: str, users: dict[str, str], autojump_clock: MockClock) -> None:
    text = await refusal(SaslConfig(users=users), config(mechanism))
    assert text.startswith(f"{HOST}:9092: {mechanism} as 'alice' was refused: ")
    assert text.endswith("; correct sasl_username and sasl_password")
    assert "sesame" not in text


@pytest.mark.parametrize("mechanism", PASSWORD_MECHANISMS)
async def test_names_and_passwords_of_all_kinds(mechanism: str, autojump_clock: MockClock) -> None:
    name, password = "a=b,c=2Cé\u4e2d", "p,=ä \U0001f600"
    options = config(mechanism, sasl_username=name, sasl_password=password)
    async with reached(SaslConfig(users={name: password}), options) as (pool, _):
        await ask(pool)


async def test_mechanism_that_the_broker_does_not_take(autojump_clock: MockClock) -> None:
    sasl = SaslConfig(users={"alice": "sesame"}, mechanisms=("SCRAM-SHA-512", "OAUTHBEARER"))
    assert await refusal(sasl, config("PLAIN")) == (
        f"{HOST}:9092: the broker supports OAUTHBEARER, SCRAM-SHA-512, not PLAIN; set sasl_mechanism to one of these"
    )


async def test_listener_that_asks_nobody(autojump_clock: MockClock) -> None:
    assert "its listener does not authenticate clients" in await refusal(None, config())


class TestTokens:
    """Tests of functions in threads, which trio's mock clock cannot see."""

    @pytest.mark.parametrize("kind", ["text", "token", "async"])
    async def test_one_is_taken(self, kind: str) -> None:
        async def later() -> Token:
            await trio.sleep(0.01)
            return Token("good")

        source: Callable[[], Any] = {"text": lambda: "good", "token": lambda: Token("good"), "async": later}[kind]
        async with reached(SaslConfig(tokens={"good": "alice"}), config("OAUTHBEARER", sasl_token=source)) as (pool, _):
            await ask(pool)

    async def test_one_that_is_not(self) -> None:
        options = config("OAUTHBEARER", sasl_token=lambda: "stolen")
        text = await refusal(SaslConfig(tokens={"good": "alice"}), options)
        assert text == (
            f'{HOST}:9092: OAUTHBEARER was refused: {{"status":"invalid_token"}}; check the token from sasl_token: '
            "is it expired, or for another audience or issuer?"
        )

    async def test_source_that_raises_is_called_again(self) -> None:
        told = [ValueError("the server is away"), "good"]

        def source() -> str:
            one = told.pop(0)
            if isinstance(one, Exception):
                raise one
            return one

        options = config("OAUTHBEARER", sasl_token=source)
        async with reached(SaslConfig(tokens={"good": "alice"}), options) as (pool, _):
            with pytest.raises(TokenError, match="sasl_token raised ValueError: the server is away"):
                await ask(pool)
            await ask(pool)

    async def test_what_looks_secret_in_what_it_raises_is_masked(self) -> None:
        def source() -> str:
            raise ValueError("POST /token?client_secret=sesame&x=y: 401")

        async with reached(SaslConfig(tokens={"good": "alice"}), config("OAUTHBEARER", sasl_token=source)) as (pool, _):
            with pytest.raises(TokenError, match=r"ValueError: POST /token\?client_secret=\*\*\*&x=y: 401"):
                await ask(pool)

    async def test_what_is_around_it_is_taken_off(self) -> None:
        options = config("OAUTHBEARER", sasl_token=lambda: "good\n")
        async with reached(SaslConfig(tokens={"good": "alice"}), options) as (pool, _):
            await ask(pool)

    @pytest.mark.parametrize("text", ["go od", "go\udcffod"])
    async def test_what_cannot_be_said(self, text: str) -> None:
        options = config("OAUTHBEARER", sasl_token=lambda: text)
        async with reached(SaslConfig(tokens={"good": "alice"}), options) as (pool, _):
            with pytest.raises(TokenError, match=r"^sasl_token returned an invalid token: "):
                await ask(pool)

    async def test_what_is_no_token(self) -> None:
        options = config("OAUTHBEARER", sasl_token=lambda: None)
        async with reached(SaslConfig(tokens={"good": "alice"}), options) as (pool, _):
            with pytest.raises(TokenError, match="sasl_token returned a NoneType instead of a "):
                await ask(pool)


async def test_a_group_ends_at_once_where_its_password_is_wrong(autojump_clock: MockClock) -> None:
    async with asking(SaslConfig(users={"alice": "simsim"})) as cluster:
        began = trio.current_time()
        async with member(cluster, config()) as group:
            with pytest.raises(AuthenticationError, match="PLAIN as 'alice' was refused"):
                await group.consume(["t"], Recorder())
        assert trio.current_time() - began < 1


async def test_a_group_ends_in_order_where_its_password_is_changed(autojump_clock: MockClock) -> None:
    sasl = SaslConfig(users={"alice": "sesame"}, lifetime=10.0)
    handler = Recorder()
    async with asking(sasl) as cluster, deadline(60) as nursery:

        async def change() -> None:
            await trio.sleep(5)
            sasl.users["alice"] = "simsim"

        nursery.start_soon(change)
        async with member(cluster, config()) as group:
            with pytest.raises(AuthenticationError, match="PLAIN as 'alice' was refused"):
                await group.consume(["t"], handler)
    assert [call for call in handler.calls if call in ("setup", "cleanup")] == ["setup", "cleanup"], handler.calls


async def test_claims_without_a_group_fail_on_a_changed_password(autojump_clock: MockClock) -> None:
    sasl = SaslConfig(users={"alice": "sesame"}, lifetime=10.0)
    async with (
        asking(sasl) as cluster,
        Consumer(cluster.bootstrap_servers, config(), transport=cluster.transport) as reader,
    ):
        async with reader.consume_partition("t", 0, "oldest") as claim:
            sasl.users["alice"] = "simsim"
            with trio.fail_after(60), pytest.raises(AuthenticationError, match="PLAIN as 'alice' was refused"):
                await anext(aiter(claim))


async def test_consumer_without_a_group_is_refused_at_once(autojump_clock: MockClock) -> None:
    sasl = SaslConfig(users={"alice": "simsim"})
    async with (
        asking(sasl) as cluster,
        Consumer(cluster.bootstrap_servers, config(), transport=cluster.transport) as reader,
    ):
        with trio.fail_after(1), pytest.raises(AuthenticationError, match="PLAIN as 'alice' was refused"):
            await reader.topic_partitions("t")


async def test_administrator_is_refused_at_once(autojump_clock: MockClock) -> None:
    async with asking(SaslConfig(users={"alice": "simsim"})) as cluster:
        admin = GroupAdmin(cluster.bootstrap_servers, config(), lambda event: None, transport=cluster.transport)
        with trio.fail_after(1), pytest.raises(AuthenticationError, match="PLAIN as 'alice' was refused"):
            async with admin:
                pass


async def test_administrator_is_refused_later(autojump_clock: MockClock) -> None:
    sasl = SaslConfig(users={"alice": "sesame"})
    async with (
        asking(sasl) as cluster,
        GroupAdmin(cluster.bootstrap_servers, config(), lambda event: None, transport=cluster.transport) as admin,
    ):
        sasl.users["alice"] = "simsim"
        cluster.disconnect()
        for ask_for in (lambda: admin.describe("g"), lambda: admin.committed("g"), lambda: admin.metadata(["t"])):
            with trio.fail_after(1), pytest.raises(AuthenticationError, match="PLAIN as 'alice' was refused"):
                await ask_for()


async def test_producer_is_refused_at_once(autojump_clock: MockClock) -> None:
    async with (
        asking(SaslConfig(users={"alice": "simsim"})) as cluster,
        Producer(cluster.bootstrap_servers, config(), transport=cluster.transport) as producer,
    ):
        with trio.fail_after(1), pytest.raises(AuthenticationError, match="PLAIN as 'alice' was refused"):
            await producer.send("t", b"value")
