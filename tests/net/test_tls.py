"""TLS: who is trusted, whom a broker trusts, files that are renewed. Real handshakes over in-memory streams."""

from __future__ import annotations

import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import trio
import trustme
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, PrivateFormat
from cryptography.hazmat.primitives.serialization import load_pem_private_key as load_key

from sarameya import Config, ConfigError, ConnectionLostError, ConsumerGroup, Event, SarameyaError, TlsError
from sarameya.embedded import EmbeddedCluster
from sarameya.net.broker_pool import BrokerPool, Purpose, open_broker_pool
from sarameya.net.security.tls import make_context
from sarameya.observe import TlsFilesRefused, TlsFilesRenewed
from tests.group.kit import Recorder, deadline

HOST = "broker-0"
LOOPBACK = "127.0.0.1"
LONG_AGO = datetime.now(UTC) - timedelta(days=10)
YESTERDAY = datetime.now(UTC) - timedelta(days=1)


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture(scope="module")
def stranger() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def ca_file(authority: trustme.CA, tmp_path: Path) -> str:
    return written(tmp_path / "ca.pem", authority.cert_pem.bytes())


def written(path: Path, *contents: bytes) -> str:
    path.write_bytes(b"".join(contents))
    return str(path)


def server(certificate: trustme.LeafCert, clients: trustme.CA | None = None) -> ssl.SSLContext:
    """A broker's; `clients`: who has to have signed its clients' certificates, which it asks for then."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    certificate.configure_cert(context)
    if clients is not None:
        clients.configure_trust(context)
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def identity(directory: Path, certificate: trustme.LeafCert) -> str:
    return written(directory / "client.pem", certificate.private_key_and_cert_chain_pem.bytes())


@asynccontextmanager
async def reached(context: ssl.SSLContext | None, **options: Any) -> AsyncIterator[tuple[BrokerPool, list[Event]]]:
    """A pool that wants TLS of a cluster which has `context`."""
    events: list[Event] = []
    config = Config(security_protocol="SSL", **options)
    with trio.fail_after(10):
        async with (
            EmbeddedCluster({"t": 1}, in_memory=True, tls=context) as cluster,
            open_broker_pool([f"{HOST}:9092"], config, events.append, cluster.transport) as pool,
        ):
            yield pool, events


async def connect(pool: BrokerPool) -> None:
    """A new connection, used once."""
    pool.close_connection(-1, Purpose.METADATA)
    await trio.testing.wait_all_tasks_blocked()
    connection = await pool.connection(-1, Purpose.METADATA)
    await connection.negotiate(5.0)


async def refusal(context: ssl.SSLContext | None, **options: Any) -> str:
    async with reached(context, **options) as (pool, _):
        with pytest.raises(TlsError) as raised:
            await connect(pool)
    return str(raised.value)


async def test_a_group_consumes_over_tls(authority: trustme.CA, ca_file: str) -> None:
    config = Config(security_protocol="SSL", tls_ca_file=ca_file, offset_initial="oldest")
    async with EmbeddedCluster({"t": 2}, in_memory=True, tls=server(authority.issue_cert(HOST))) as cluster:
        for partition in range(2):
            cluster.produce("t", partition, b"x" * 100_000)
        handler = Recorder()
        async with (
            deadline(10),
            ConsumerGroup(cluster.bootstrap_servers, "g", config, transport=cluster.transport) as group,
        ):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(group.consume, ["t"], handler)
                while len(handler.messages) < 2:
                    await trio.sleep(0.01)
                group.close_nowait()


async def test_certificate_that_nobody_whom_we_trust_has_signed(stranger: trustme.CA, ca_file: str) -> None:
    text = await refusal(server(stranger.issue_cert(HOST)), tls_ca_file=ca_file)
    assert text == (
        f"{HOST}:9092: no trusted CA has signed the broker's certificate; set tls_ca_file to its CA's certificate"
    )


async def test_certificate_of_the_system_s_trust_when_no_file_is_given(authority: trustme.CA) -> None:
    assert "no trusted CA" in await refusal(server(authority.issue_cert(HOST)))


async def test_certificate_that_has_expired(authority: trustme.CA, ca_file: str) -> None:
    old = authority.issue_cert(HOST, not_before=LONG_AGO, not_after=YESTERDAY)
    text = await refusal(server(old), tls_ca_file=ca_file)
    assert "the broker's certificate, or one that has signed it, has expired; renew it" in text


@pytest.mark.parametrize("code", [2, 18, 19, 20, 21])
def test_certificate_whose_signer_is_not_there(code: int) -> None:
    from sarameya.net.security.tls import tls_error

    error = ssl.SSLCertVerificationError()
    error.verify_code, error.verify_message = code, "OpenSSL's"
    assert "no trusted CA has signed the broker's certificate; set tls_ca_file" in str(tls_error("a:1", error))


def test_tls_is_1_2_at_least_whatever_the_system_has(monkeypatch: pytest.MonkeyPatch) -> None:
    made = ssl.create_default_context()
    made.minimum_version = ssl.TLSVersion.MINIMUM_SUPPORTED
    monkeypatch.setattr(ssl, "create_default_context", lambda **_: made)
    assert make_context(Config(security_protocol="SSL")).minimum_version is ssl.TLSVersion.TLSv1_2


async def test_certificate_for_another_host(authority: trustme.CA, ca_file: str) -> None:
    other = server(authority.issue_cert("other.example"))
    assert "is for another host" in await refusal(other, tls_ca_file=ca_file)
    async with reached(other, tls_ca_file=ca_file, tls_check_hostname=False) as (pool, _):
        await connect(pool)


async def test_listener_that_speaks_no_tls(ca_file: str) -> None:
    async with reached(None, tls_ca_file=ca_file) as (pool, _):
        with pytest.raises(
            ConnectionLostError, match=r"ended in the TLS handshake; does this port have a TLS listener\?"
        ):
            await connect(pool)


class TestClientCertificates:
    """Brokers of threads: trio's server streams end without the alert that says why."""

    @pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
    async def test_none_is_given_where_one_is_asked_for(
        self, authority: trustme.CA, ca_file: str, version: ssl.TLSVersion
    ) -> None:
        context = server(authority.issue_cert(LOOPBACK), authority)
        context.maximum_version = version
        text = await refused_by(context, tls_ca_file=ca_file)
        assert "requires a client certificate" in text
        assert "set tls_cert_file" in text

    async def test_one_is_taken(self, authority: trustme.CA, ca_file: str, tmp_path: Path) -> None:
        mine = identity(tmp_path, authority.issue_cert("client.example"))
        context = server(authority.issue_cert(HOST), authority)
        async with reached(context, tls_ca_file=ca_file, tls_cert_file=mine) as (pool, _):
            await connect(pool)

    async def test_one_of_a_stranger_s(
        self, authority: trustme.CA, stranger: trustme.CA, ca_file: str, tmp_path: Path
    ) -> None:
        mine = identity(tmp_path, stranger.issue_cert("client.example"))
        context = server(authority.issue_cert(LOOPBACK), authority)
        text = await refused_by(context, tls_ca_file=ca_file, tls_cert_file=mine)
        assert "the broker does not know the CA of our certificate" in text

    async def test_one_that_has_expired(self, authority: trustme.CA, ca_file: str, tmp_path: Path) -> None:
        mine = identity(tmp_path, authority.issue_cert("c.example", not_before=LONG_AGO, not_after=YESTERDAY))
        context = server(authority.issue_cert(LOOPBACK), authority)
        assert "our certificate has expired" in await refused_by(context, tls_ca_file=ca_file, tls_cert_file=mine)


async def refused_by(context: ssl.SSLContext, **options: Any) -> str:
    """Return the error for a broker with this context, which refuses every client."""
    config = Config(security_protocol="SSL", **options)
    with socket.create_server((LOOPBACK, 0)) as listening, trio.fail_after(10):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.to_thread.run_sync, _refuse, listening, context)
            address = f"{LOOPBACK}:{listening.getsockname()[1]}"
            async with open_broker_pool([address], config, lambda event: None) as pool:
                with pytest.raises(TlsError) as raised:
                    await pool.connection(-1, Purpose.METADATA)
    return str(raised.value)


def _refuse(listening: socket.socket, context: ssl.SSLContext) -> None:
    accepted, _ = listening.accept()
    with accepted, suppress(ssl.SSLError), context.wrap_socket(accepted, server_side=True) as stream:
        stream.read()


class TestFiles:
    async def test_renewed_ones_are_used_for_the_next_connection(
        self, authority: trustme.CA, stranger: trustme.CA, ca_file: str, tmp_path: Path
    ) -> None:
        mine = identity(tmp_path, stranger.issue_cert("client.example"))
        context = server(authority.issue_cert(HOST), authority)
        async with reached(context, tls_ca_file=ca_file, tls_cert_file=mine) as (pool, events):
            with pytest.raises(SarameyaError):
                await connect(pool)
            identity(tmp_path, authority.issue_cert("client.example"))
            await connect(pool)
            await connect(pool)
        assert [event for event in events if isinstance(event, TlsFilesRenewed)] == [TlsFilesRenewed((ca_file, mine))]

    async def test_half_written_ones_are_told_once_and_those_before_used(
        self, authority: trustme.CA, ca_file: str, tmp_path: Path
    ) -> None:
        certificate = authority.issue_cert("client.example")
        mine = identity(tmp_path, certificate)
        context = server(authority.issue_cert(HOST), authority)
        async with reached(context, tls_ca_file=ca_file, tls_cert_file=mine) as (pool, events):
            await connect(pool)
            written(tmp_path / "client.pem", certificate.private_key_pem.bytes())
            await connect(pool)
            await connect(pool)
            identity(tmp_path, certificate)
            await connect(pool)
        told = [event for event in events if isinstance(event, TlsFilesRefused | TlsFilesRenewed)]
        assert [type(event) for event in told] == [TlsFilesRefused, TlsFilesRenewed]
        assert f"tls_cert_file = {mine!r}: must be a PEM file with a certificate" in str(told[0])

    async def test_group_says_at_once_what_is_wrong_with_them(self) -> None:
        with pytest.raises(ConfigError, match=r"tls_ca_file = '/no/such/ca.pem': cannot be read: No such file"):
            async with ConsumerGroup(
                ["localhost:9092"], "g", Config(security_protocol="SSL", tls_ca_file="/no/such/ca.pem")
            ):
                pass

    def test_password_is_not_asked_for_on_the_terminal(
        self, authority: trustme.CA, ca_file: str, tmp_path: Path
    ) -> None:
        certificate = authority.issue_cert("client.example")
        key = load_key(certificate.private_key_pem.bytes(), None)
        locked = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"sesame"))
        files = {
            "security_protocol": "SSL",
            "tls_ca_file": ca_file,
            "tls_cert_file": written(tmp_path / "cert.pem", *(pem.bytes() for pem in certificate.cert_chain_pems)),
            "tls_key_file": written(tmp_path / "key.pem", locked),
        }
        make_context(Config(**files, tls_key_password="sesame"))
        with pytest.raises(ConfigError, match="tls_key_password = None: must be given: the key is encrypted"):
            make_context(Config(**files))
        with pytest.raises(ConfigError, match=r"tls_key_password = \*\*\*: does not decrypt the key"):
            make_context(Config(**files, tls_key_password="simsim"))

    @pytest.mark.parametrize("name", ["tls_ca_file", "tls_cert_file"])
    def test_file_that_is_no_pem(self, name: str, tmp_path: Path) -> None:
        file = written(tmp_path / "x.jks", b"\xfe\xed\xfe\xed")
        with pytest.raises(ConfigError, match=f"{name} = .*: must be a PEM file with"):
            make_context(Config(**{"security_protocol": "SSL", name: file}))

    def test_key_of_another_certificate(self, authority: trustme.CA, tmp_path: Path) -> None:
        one, other = (authority.issue_cert("client.example") for _ in range(2))
        cert = written(tmp_path / "cert.pem", one.cert_chain_pems[0].bytes())
        key = written(tmp_path / "key.pem", other.private_key_pem.bytes())
        with pytest.raises(ConfigError, match=r"tls_key_file = .*: has a key that does not match the certificate"):
            make_context(Config(security_protocol="SSL", tls_cert_file=cert, tls_key_file=key))
