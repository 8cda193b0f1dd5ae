"""TLS, SASL and ACLs with Apache Kafka: accepted and refused clients, and the error messages."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio
import trustme
from confluent_kafka.admin import AclBinding, AclOperation, AclPermissionType, ResourcePatternType, ResourceType
from kafka.protocol.metadata import MetadataRequest

from sarameya import (
    AuthenticationError,
    Claim,
    ClaimError,
    Config,
    ConnectError,
    ConsumerGroup,
    ConsumerGroupHandler,
    Event,
    GroupAuthorizationError,
    Session,
    TlsError,
    TopicAuthorizationError,
    TopicPartition,
)
from sarameya.net.broker_pool import Purpose, open_broker_pool
from sarameya.observe import ConnectionLost, TlsFilesRenewed
from tests.integration.real_kafka import RealKafka
from tests.integration.real_kafka.producing import produce
from tests.integration.real_kafka.security import (
    LISTENERS,
    REAUTH_SECONDS,
    USERS,
    Security,
    expired,
    unsecured_token,
)

pytestmark = pytest.mark.integration

COUNT = 40


class Counting(ConsumerGroupHandler):
    """Closes the group after `count` messages."""

    def __init__(self, group: ConsumerGroup, count: int) -> None:
        self._group = group
        self._remaining = count

    async def consume_claim(self, session: Session, claim: Claim) -> None:
        async for message in claim:
            session.mark_message(message)
            self._remaining -= 1
            if not self._remaining:
                self._group.close_nowait()


@pytest.fixture(scope="module")
def topic(real_kafka_secured: RealKafka) -> str:
    name = real_kafka_secured.create_topic("secured", 2)
    produce(real_kafka_secured, name, [b"v%d" % number for number in range(COUNT)])
    return name


def security(kafka: RealKafka) -> Security:
    assert kafka.security is not None
    return kafka.security


async def consume(kafka: RealKafka, listener: str, topic: str, options: Mapping[str, Any], group: str = "") -> None:
    """Consume all messages as a member of a new group."""
    config = Config(offset_initial="oldest", bootstrap_timeout=5.0, **options)
    name = group or f"secured-{uuid.uuid4()}"
    with trio.fail_after(60):
        async with ConsumerGroup(kafka.at(listener), name, config) as members:
            await members.consume([topic], Counting(members, COUNT))


def trusting(kafka: RealKafka, protocol: str = "SSL") -> dict[str, Any]:
    return {"security_protocol": protocol, "tls_ca_file": security(kafka).ca_file}


def password(mechanism: str, name: str = "alice") -> dict[str, Any]:
    return {"sasl_mechanism": mechanism, "sasl_username": name, "sasl_password": USERS[name]}


def token(subject: str, seconds: float = 600.0) -> dict[str, Any]:
    return {"sasl_mechanism": "OAUTHBEARER", "sasl_token": lambda: unsecured_token(subject, seconds)}


class TestTls:
    async def test_broker_is_trusted_by_its_certificate(self, real_kafka_secured: RealKafka, topic: str) -> None:
        await consume(real_kafka_secured, "SSL", topic, trusting(real_kafka_secured))

    async def test_client_is_authenticated_by_its_certificate(self, real_kafka_secured: RealKafka, topic: str) -> None:
        certificate = security(real_kafka_secured).identity("client")
        await consume(real_kafka_secured, "MTLS", topic, trusting(real_kafka_secured) | {"tls_cert_file": certificate})

    async def test_renewed_files_are_used_for_the_next_connection(
        self, real_kafka_secured: RealKafka, topic: str, tmp_path: Path
    ) -> None:
        """CA, certificate and key are in separate files."""
        good, bad = security(real_kafka_secured).authority, trustme.CA()

        def put(name: str, *contents: bytes) -> str:
            (tmp_path / "new").write_bytes(b"".join(contents))
            return str((tmp_path / "new").rename(tmp_path / name))

        def identify(authority: trustme.CA) -> dict[str, str]:
            certificate = authority.issue_cert("renewed.example")
            chain = [pem.bytes() for pem in certificate.cert_chain_pems]
            return {
                "tls_cert_file": put("cert.pem", *chain),
                "tls_key_file": put("key.pem", certificate.private_key_pem.bytes()),
            }

        options = {"security_protocol": "SSL", "tls_ca_file": put("ca.pem", bad.cert_pem.bytes())}
        options |= identify(good)
        events: list[Event] = []
        async with open_broker_pool(real_kafka_secured.at("MTLS"), Config(**options), events.append) as pool:

            async def request_metadata() -> None:
                with trio.fail_after(60):
                    pool.close_connection(-1, Purpose.METADATA)
                    await pool.request(-1, Purpose.METADATA, MetadataRequest, topics=[])

            with pytest.raises(TlsError, match="no trusted CA"):
                await request_metadata()
            put("ca.pem", good.cert_pem.bytes())
            await trio.sleep(1)  # a refusal is remembered for one second
            await request_metadata()
            identify(bad)
            with pytest.raises(TlsError, match=r"(refuses|does not know the CA of) our certificate"):
                await request_metadata()
            identify(good)
            await trio.sleep(1)
            await request_metadata()
        assert {type(event) for event in events if not isinstance(event, ConnectionLost)} == {TlsFilesRenewed}

    async def test_broker_of_an_unknown_authority_is_refused(
        self, real_kafka_secured: RealKafka, topic: str, tmp_path: Path
    ) -> None:
        trustme.CA().cert_pem.write_to_path(str(tmp_path / "ca.pem"))
        options = {"security_protocol": "SSL", "tls_ca_file": str(tmp_path / "ca.pem")}
        with pytest.raises(TlsError, match=r"no trusted CA has signed the broker's certificate"):
            await consume(real_kafka_secured, "SSL", topic, options)

    async def test_broker_with_another_host_name_is_refused(self, real_kafka_secured: RealKafka, topic: str) -> None:
        options = trusting(real_kafka_secured)
        with pytest.raises(TlsError, match="the broker's certificate is for another host"):
            await consume(real_kafka_secured, "OTHER_NAME", topic, options)
        await consume(real_kafka_secured, "OTHER_NAME", topic, options | {"tls_check_hostname": False})

    async def test_broker_with_an_expired_certificate_is_refused(
        self, real_kafka_secured: RealKafka, topic: str
    ) -> None:
        options = trusting(real_kafka_secured)
        with pytest.raises(TlsError, match=r"broker's certificate, or one that has signed it, has expired; renew it"):
            await consume(real_kafka_secured, "EXPIRED", topic, options)
        # Without the host name check, the date is still checked.
        with pytest.raises(TlsError, match=r"has expired; renew it"):
            await consume(real_kafka_secured, "EXPIRED", topic, options | {"tls_check_hostname": False})

    async def test_client_with_an_expired_certificate_is_refused(
        self, real_kafka_secured: RealKafka, topic: str
    ) -> None:
        certificate = security(real_kafka_secured).identity("late", **expired())
        with pytest.raises(TlsError, match=r"the broker refuses our certificate; renew it if it has expired"):
            await consume(
                real_kafka_secured, "MTLS", topic, trusting(real_kafka_secured) | {"tls_cert_file": certificate}
            )

    async def test_client_without_a_certificate_is_refused(self, real_kafka_secured: RealKafka, topic: str) -> None:
        with pytest.raises(TlsError, match=r"the broker requires a client certificate.*; set tls_cert_file"):
            await consume(real_kafka_secured, "MTLS", topic, trusting(real_kafka_secured))

    async def test_client_of_an_unknown_authority_is_refused(self, real_kafka_secured: RealKafka, topic: str) -> None:
        certificate = security(real_kafka_secured).identity("stranger", trustme.CA())
        with pytest.raises(TlsError, match=r"(refuses|does not know the CA of) our certificate; .*set tls_cert_file"):
            await consume(
                real_kafka_secured, "MTLS", topic, trusting(real_kafka_secured) | {"tls_cert_file": certificate}
            )


class TestSasl:
    @pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
    @pytest.mark.parametrize("listener", ["SASL_SSL", "SASL_PLAIN"])
    async def test_password_is_accepted(
        self, real_kafka_secured: RealKafka, topic: str, listener: str, mechanism: str
    ) -> None:
        encrypted = trusting(real_kafka_secured, "SASL_SSL")
        options = encrypted if listener == "SASL_SSL" else {"security_protocol": "SASL_PLAINTEXT"}
        await consume(real_kafka_secured, listener, topic, options | password(mechanism))

    async def test_password_with_special_characters_is_accepted(
        self, real_kafka_secured: RealKafka, topic: str
    ) -> None:
        options = trusting(real_kafka_secured, "SASL_SSL") | password("PLAIN", "bob")
        await consume(real_kafka_secured, "SASL_SSL", topic, options)

    async def test_token_is_accepted(self, real_kafka_secured: RealKafka, topic: str) -> None:
        await consume(real_kafka_secured, "SASL_SSL", topic, trusting(real_kafka_secured, "SASL_SSL") | token("alice"))

    @pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
    async def test_wrong_password_is_refused(self, real_kafka_secured: RealKafka, topic: str, mechanism: str) -> None:
        options = trusting(real_kafka_secured, "SASL_SSL") | password(mechanism) | {"sasl_password": "simsim"}
        with pytest.raises(AuthenticationError, match=rf"{mechanism} as 'alice' was refused: .*; correct sasl_us"):
            await consume(real_kafka_secured, "SASL_SSL", topic, options)

    async def test_expired_token_is_refused(self, real_kafka_secured: RealKafka, topic: str) -> None:
        options = trusting(real_kafka_secured, "SASL_SSL") | token("alice", -60.0)
        with pytest.raises(AuthenticationError, match=r"OAUTHBEARER was refused: "):
            await consume(real_kafka_secured, "SASL_SSL", topic, options)

    async def test_listener_without_sasl_is_reported(self, real_kafka_secured: RealKafka, topic: str) -> None:
        options = trusting(real_kafka_secured, "SASL_SSL") | password("PLAIN")
        with pytest.raises(AuthenticationError, match="its listener does not authenticate clients"):
            await consume(real_kafka_secured, "SSL", topic, options)


class TestWrongListeners:
    async def test_tls_to_a_plain_listener_is_reported(self, real_kafka_secured: RealKafka, topic: str) -> None:
        options = trusting(real_kafka_secured, "SASL_SSL") | password("PLAIN")
        with pytest.raises(ConnectError, match=r"does this port have a TLS listener"):
            await consume(real_kafka_secured, "SASL_PLAIN", topic, options)

    async def test_plain_text_to_a_tls_listener_is_reported(self, real_kafka_secured: RealKafka, topic: str) -> None:
        with pytest.raises(ConnectError, match=r"the peer speaks TLS: set security_protocol"):
            await consume(real_kafka_secured, "SSL", topic, {})

    async def test_missing_credentials_are_reported(self, real_kafka_secured: RealKafka, topic: str) -> None:
        with pytest.raises(ConnectError, match=r"does its listener require SASL"):
            await consume(real_kafka_secured, "SASL_PLAIN", topic, {})


def short_tokens() -> Callable[[], str]:
    """Return a function that gives the same token until it has almost expired, as a client of a token server does."""
    good, token = 0.0, ""

    def give() -> str:
        nonlocal good, token
        if time.time() > good:
            good, token = time.time() + 11.5, unsecured_token("alice", 12.0)
        return token

    return give


@pytest.mark.parametrize(
    ("listener", "mechanism"),
    [("SASL_SSL_REAUTH", "SCRAM-SHA-512"), pytest.param("SASL_PLAIN", "OAUTHBEARER", marks=pytest.mark.exhaustive)],
)
async def test_connections_are_renewed_while_two_members_consume(
    real_kafka_secured: RealKafka, listener: str, mechanism: str
) -> None:
    """The test takes several lifetimes of a connection, with a rebalance in between (KIP-368).

    Tokens that are used nearly to their end have sessions that are too short to be renewed in time.
    """
    topic = real_kafka_secured.create_topic(f"renewed-{mechanism.lower()}", 2)
    credentials = password(mechanism) if mechanism != "OAUTHBEARER" else token("alice") | {"sasl_token": short_tokens()}
    protocol = LISTENERS[listener]
    trust = trusting(real_kafka_secured, protocol) if protocol == "SASL_SSL" else {"security_protocol": protocol}
    config = Config(offset_initial="oldest", **trust, **credentials)
    events: list[Event] = []
    read: set[bytes | None] = set()
    sent: list[bytes] = []

    class Recording(ConsumerGroupHandler):
        async def consume_claim(self, session: Session, claim: Claim) -> None:
            async for message in claim:
                read.add(message.value)
                session.mark_message(message)

    async def send_for(seconds: float) -> None:
        end = trio.current_time() + seconds
        while trio.current_time() < end:
            value = b"%d" % len(sent)
            await trio.to_thread.run_sync(produce, real_kafka_secured, topic, [value])
            sent.append(value)
            await trio.sleep(1)

    with trio.fail_after(90):
        async with (
            ConsumerGroup(real_kafka_secured.at(listener), topic, config, observers=[events.append]) as first,
            ConsumerGroup(real_kafka_secured.at(listener), topic, config, observers=[events.append]) as second,
            trio.open_nursery() as nursery,
        ):
            nursery.start_soon(first.consume, [topic], Recording())
            await send_for(1.5 * REAUTH_SECONDS)
            nursery.start_soon(second.consume, [topic], Recording())
            await send_for(4 * REAUTH_SECONDS)
            while read < set(sent):
                await trio.sleep(0.1)
            first.close_nowait()
            second.close_nowait()
    assert [str(event) for event in events if isinstance(event, ConnectionLost)] == []
    # Each member has about four connections, and each of them authenticates once at the start.
    for group in (first, second):
        assert group.meters.requests["SaslHandshake"].count > 3 * _CONNECTIONS


_CONNECTIONS = 4
"""Connections of a member to one broker: for metadata, the membership, offsets, and fetches."""


class TestAuthorization:
    """An operation that ACLs forbid names the missing permission, and ends `consume`."""

    async def test_unauthorized_topic_is_reported(self, real_kafka_secured: RealKafka) -> None:
        topic = real_kafka_secured.create_topic("for-alice", 1)
        allow(real_kafka_secured, ResourceType.TOPIC, topic, "alice")
        options = trusting(real_kafka_secured, "SASL_SSL") | password("PLAIN", "bob")
        with pytest.raises(TopicAuthorizationError, match=r"grant this principal READ and DESCRIBE on the topic"):
            await consume(real_kafka_secured, "SASL_SSL", topic, options)

    async def test_unauthorized_group_is_reported(self, real_kafka_secured: RealKafka, topic: str) -> None:
        allow(real_kafka_secured, ResourceType.GROUP, "alice-s", "alice")
        options = trusting(real_kafka_secured, "SASL_SSL") | password("PLAIN", "bob")
        with pytest.raises(GroupAuthorizationError, match=r"grant this principal READ on the group"):
            await consume(real_kafka_secured, "SASL_SSL", topic, options, group="alice-s")

    async def test_describable_but_unreadable_topic_is_reported(self, real_kafka_secured: RealKafka) -> None:
        topic = real_kafka_secured.create_topic("seen", 1)
        allow(real_kafka_secured, ResourceType.TOPIC, topic, "bob", AclOperation.DESCRIBE)
        options = trusting(real_kafka_secured, "SASL_SSL") | password("PLAIN", "bob")
        with pytest.raises(ExceptionGroup) as raised:
            await consume(real_kafka_secured, "SASL_SSL", topic, options)
        (refused,) = raised.value.exceptions
        assert isinstance(refused, TopicAuthorizationError)
        assert "grant this principal READ" in str(refused)

    async def test_revoked_read_permission_is_reported(self, real_kafka_secured: RealKafka) -> None:
        topic = real_kafka_secured.create_topic("taken-away", 1)
        produce(real_kafka_secured, topic, [b"before"])
        options = trusting(real_kafka_secured, "SASL_SSL") | password("PLAIN", "bob")

        class Losing(ConsumerGroupHandler):
            async def consume_claim(self, session: Session, claim: Claim) -> None:
                async for _ in claim:
                    deny = partial(allow, permission=AclPermissionType.DENY)
                    await trio.to_thread.run_sync(
                        deny, real_kafka_secured, ResourceType.TOPIC, topic, "bob", AclOperation.READ
                    )

        config = Config(offset_initial="oldest", **options)
        with trio.fail_after(60), pytest.raises(ExceptionGroup) as raised:
            async with ConsumerGroup(real_kafka_secured.at("SASL_SSL"), f"g-{uuid.uuid4()}", config) as group:
                await group.consume([topic], Losing())
        (failed,) = raised.value.exceptions
        assert isinstance(failed, ClaimError)
        assert failed.partition == TopicPartition(topic, 0)
        assert isinstance(failed.cause, TopicAuthorizationError)
        assert "grant this principal READ" in str(failed)


def allow(
    kafka: RealKafka,
    kind: ResourceType,
    name: str,
    user: str,
    operation: AclOperation = AclOperation.ALL,
    permission: AclPermissionType = AclPermissionType.ALLOW,
) -> None:
    binding = AclBinding(kind, name, ResourcePatternType.LITERAL, f"User:{user}", "*", operation, permission)
    admin = kafka.admin()  # keep a reference: without one the client stops its requests
    for done in admin.create_acls([binding]).values():
        done.result(20)
