"""SASL with Kerberos tickets (GSSAPI), with Apache Kafka and MIT's key distribution center."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

import pytest
import trio

from sarameya import AuthenticationError, Config, ConsumerGroup, Event, TokenError
from sarameya.observe import ConnectionLost
from tests.integration.real_kafka import RealKafka
from tests.integration.real_kafka.kerberos import HOST_NAME
from tests.integration.real_kafka.producing import produce
from tests.integration.real_kafka.security import REAUTH_SECONDS
from tests.integration.test_security import COUNT, Counting, consume, security

pytestmark = pytest.mark.integration

OPTIONS: dict[str, Any] = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "GSSAPI"}


@pytest.fixture(scope="module")
def topic(real_kafka_secured: RealKafka) -> str:
    name = real_kafka_secured.create_topic("for-tickets", 2)
    produce(real_kafka_secured, name, [b"v%d" % number for number in range(COUNT)])
    return name


@pytest.fixture
def _machine(real_kafka_secured: RealKafka, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put this machine into the realm, without tickets."""
    monkeypatch.setenv("KRB5_CONFIG", security(real_kafka_secured).realm.krb5_conf)
    monkeypatch.setenv("KRB5CCNAME", f"FILE:{tmp_path / 'tickets'}")
    monkeypatch.delenv("KRB5_CLIENT_KTNAME", raising=False)


@pytest.fixture
def _alice(_machine: None, real_kafka_secured: RealKafka, monkeypatch: pytest.MonkeyPatch) -> None:
    """Give this machine tickets from a keytab, as services have them."""
    monkeypatch.setenv("KRB5_CLIENT_KTNAME", security(real_kafka_secured).realm.keytab("alice"))


@pytest.mark.usefixtures("_alice")
async def test_ticket_of_a_keytab_is_accepted(real_kafka_secured: RealKafka, topic: str) -> None:
    await consume(real_kafka_secured, "KERBEROS", topic, OPTIONS)


@pytest.mark.usefixtures("_alice")
async def test_ticket_is_renewed_while_a_member_consumes(real_kafka_secured: RealKafka) -> None:
    topic = real_kafka_secured.create_topic("for-tickets-again", 1)
    events: list[Event] = []
    async with (
        ConsumerGroup(
            real_kafka_secured.at("KERBEROS"), f"tickets-{uuid.uuid4()}", Config(**OPTIONS), observers=[events.append]
        ) as group,
        trio.open_nursery() as nursery,
    ):
        nursery.start_soon(group.consume, [topic], Counting(group, 1))
        with trio.fail_after(60):
            await trio.sleep(1.5 * REAUTH_SECONDS)
            await trio.to_thread.run_sync(produce, real_kafka_secured, topic, [b"late"])
    assert [str(event) for event in events if isinstance(event, ConnectionLost)] == []


@pytest.mark.usefixtures("_machine")
async def test_missing_ticket_is_reported(real_kafka_secured: RealKafka, topic: str) -> None:
    with pytest.raises(
        TokenError, match=r"no GSSAPI credentials for localhost:\d+: Kerberos reports: No Kerberos cred"
    ):
        await consume(real_kafka_secured, "KERBEROS", topic, OPTIONS)


@pytest.mark.usefixtures("_alice")
async def test_service_unknown_to_the_realm_is_reported(real_kafka_secured: RealKafka, topic: str) -> None:
    with pytest.raises(TokenError, match=r"Server nobody/localhost@KRBTEST\.COM not found in Kerberos database"):
        await consume(real_kafka_secured, "KERBEROS", topic, OPTIONS | {"sasl_kerberos_service": "nobody"})


@pytest.mark.usefixtures("_alice")
async def test_ticket_for_another_service_is_refused(real_kafka_secured: RealKafka, topic: str) -> None:
    """The realm issues a ticket for it, which the broker cannot read."""
    security(real_kafka_secured).realm.keytab(f"other/{HOST_NAME}")
    with pytest.raises(AuthenticationError, match=r"GSSAPI was refused: .*; check that the broker's keytab is for"):
        await consume(real_kafka_secured, "KERBEROS", topic, OPTIONS | {"sasl_kerberos_service": "other"})
