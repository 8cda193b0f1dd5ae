"""TLS: trusted brokers, client certificates and renewed files. Real handshakes over in-memory streams."""

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
def unknown_ca() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def ca_file(authority: trustme.CA, tmp_path: Path) -> str:
    return write_file(tmp_path / "ca.pem", authority.cert_pem.bytes())


def write_file(path: Path, *contents: bytes) -> str:
    path.write_bytes(b"".join(contents))
    return str(path)


def server(certificate: trustme.LeafCert, clients: trustme.CA | None = None) -> ssl.SSLContext:
    """Return a broker's context. With `clients`, each client must have a certificate that this CA has signed."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    certificate.configure_cert(context)
    if clients is not None:
        clients.configure_trust(context)
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def identity(directory: Path, certificate: trustme.LeafCert) -> str:
    return write_file(directory / "client.pem", certificate.private_key_and_cert_chain_pem.bytes())


@asynccontextmanager
async def open_pool(context: ssl.SSLContext | None, **options: Any) -> AsyncIterator[tuple[BrokerPool, list[Event]]]:
    """Yield a pool that uses TLS, for a cluster with `context`."""
    events: list[Event] = []
    config = Config(security_protocol="SSL", **options)
    with trio.fail_after(10):
        async with (
            EmbeddedCluster({"t": 1}, in_memory=True, tls=context) as cluster,
            open_broker_pool([f"{HOST}:9092"], config, events.append, cluster.transport) as pool,
        ):
            yield pool, events


async def connect(pool: BrokerPool) -> None:
    """Open a new connection, and use it once."""
    pool.close_connection(-1, Purpose.METADATA)
    await trio.testing.wait_all_tasks_blocked()
    connection = await pool.connection(-1, Purpose.METADATA)
    await connection.negotiate(5.0)


async def refusal(context: ssl.SSLContext | None, **options: Any) -> str:
    async with open_pool(context, **options) as (pool, _):
        with pytest.raises(TlsError) as raised:
            await connect(pool)
    return str(raised.value)


async def test_group_consumes_over_tls(authority: trustme.CA, ca_file: str) -> None:
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


async def test_certificate_of_an_unknown_ca_is_refused(unknown_ca: trustme.CA, ca_file: str) -> None:
    text = await refusal(server(unknown_ca.issue_cert(HOST)), tls_ca_file=ca_file)
    assert text == (
        f"{HOST}:9092: no trusted CA has signed the broker's certificate; set tls_ca_file to its CA's certificate"
    )


async def test_system_cas_are_used_without_tls_ca_file(authority: trustme.CA) -> None:
    assert "no trusted CA" in await refusal(server(authority.issue_cert(HOST)))


async def test_expired_broker_certificate_is_refused(authority: trustme.CA, ca_file: str) -> None:
    old = authority.issue_cert(HOST, not_before=LONG_AGO, not_after=YESTERDAY)
    text = await refusal(server(old), tls_ca_file=ca_file)
    assert "the broker's certificate, or one that has signed it, has expired; renew it" in text


@pytest.mark.parametrize("code", [2, 18, 19, 20, 21])
def test_openssl_codes_of_an_unknown_ca_share_a_message(code: int) -> None:
    from sarameya.net.security.tls import tls_error

    error = ssl.SSLCertVerificationError()
    error.verify_code, error.verify_message = code, "OpenSSL's"
    assert "no trusted CA has signed the broker's certificate; set tls_ca_file" in str(tls_error("a:1", error))


def test_tls_version_is_at_least_1_2_on_every_system(monkeypatch: pytest.MonkeyPatch) -> None:
    context = ssl.create_default_context()
    context.minimum_version = ssl.TLSVersion.MINIMUM_SUPPORTED
    monkeypatch.setattr(ssl, "create_default_context", lambda **_: context)
    assert make_context(Config(security_protocol="SSL")).minimum_version is ssl.TLSVersion.TLSv1_2


async def test_certificate_for_another_host_is_refused(authority: trustme.CA, ca_file: str) -> None:
    other = server(authority.issue_cert("other.example"))
    assert "is for another host" in await refusal(other, tls_ca_file=ca_file)
    async with open_pool(other, tls_ca_file=ca_file, tls_check_hostname=False) as (pool, _):
        await connect(pool)


async def test_listener_without_tls_is_reported(ca_file: str) -> None:
    async with open_pool(None, tls_ca_file=ca_file) as (pool, _):
        with pytest.raises(
            ConnectionLostError, match=r"ended in the TLS handshake; does this port have a TLS listener\?"
        ):
            await connect(pool)


class TestClientCertificates:
    """Brokers run in threads: trio's server streams end without the TLS alert that has the reason."""

    @pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
    async def test_missing_client_certificate_is_refused(
        self, authority: trustme.CA, ca_file: str, version: ssl.TLSVersion
    ) -> None:
        context = server(authority.issue_cert(LOOPBACK), authority)
        context.maximum_version = version
        text = await refused_by(context, tls_ca_file=ca_file)
        assert "requires a client certificate" in text
        assert "set tls_cert_file" in text

    async def test_client_certificate_is_accepted(self, authority: trustme.CA, ca_file: str, tmp_path: Path) -> None:
        cert_file = identity(tmp_path, authority.issue_cert("client.example"))
        context = server(authority.issue_cert(HOST), authority)
        async with open_pool(context, tls_ca_file=ca_file, tls_cert_file=cert_file) as (pool, _):
            await connect(pool)

    async def test_client_certificate_of_an_unknown_ca_is_refused(
        self, authority: trustme.CA, unknown_ca: trustme.CA, ca_file: str, tmp_path: Path
    ) -> None:
        cert_file = identity(tmp_path, unknown_ca.issue_cert("client.example"))
        context = server(authority.issue_cert(LOOPBACK), authority)
        text = await refused_by(context, tls_ca_file=ca_file, tls_cert_file=cert_file)
        assert "the broker does not know the CA of our certificate" in text

    async def test_expired_client_certificate_is_refused(
        self, authority: trustme.CA, ca_file: str, tmp_path: Path
    ) -> None:
        cert_file = identity(tmp_path, authority.issue_cert("c.example", not_before=LONG_AGO, not_after=YESTERDAY))
        context = server(authority.issue_cert(LOOPBACK), authority)
        assert "our certificate has expired" in await refused_by(context, tls_ca_file=ca_file, tls_cert_file=cert_file)


async def refused_by(context: ssl.SSLContext, **options: Any) -> str:
    """Return the error for a broker with this context, which refuses every client."""
    config = Config(security_protocol="SSL", **options)
    with socket.create_server((LOOPBACK, 0)) as listening, trio.fail_after(10):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.to_thread.run_sync, _refuse_client, listening, context)
            address = f"{LOOPBACK}:{listening.getsockname()[1]}"
            async with open_broker_pool([address], config, lambda event: None) as pool:
                with pytest.raises(TlsError) as raised:
                    await pool.connection(-1, Purpose.METADATA)
    return str(raised.value)


def _refuse_client(listening: socket.socket, context: ssl.SSLContext) -> None:
    accepted, _ = listening.accept()
    with accepted, suppress(ssl.SSLError), context.wrap_socket(accepted, server_side=True) as stream:
        stream.read()


class TestFiles:
    async def test_renewed_files_are_used_for_the_next_connection(
        self, authority: trustme.CA, unknown_ca: trustme.CA, ca_file: str, tmp_path: Path
    ) -> None:
        cert_file = identity(tmp_path, unknown_ca.issue_cert("client.example"))
        context = server(authority.issue_cert(HOST), authority)
        async with open_pool(context, tls_ca_file=ca_file, tls_cert_file=cert_file) as (pool, events):
            with pytest.raises(SarameyaError):
                await connect(pool)
            identity(tmp_path, authority.issue_cert("client.example"))
            await connect(pool)
            await connect(pool)
        assert [event for event in events if isinstance(event, TlsFilesRenewed)] == [
            TlsFilesRenewed((ca_file, cert_file))
        ]

    async def test_half_written_file_is_reported_once_and_not_used(
        self, authority: trustme.CA, ca_file: str, tmp_path: Path
    ) -> None:
        certificate = authority.issue_cert("client.example")
        cert_file = identity(tmp_path, certificate)
        context = server(authority.issue_cert(HOST), authority)
        async with open_pool(context, tls_ca_file=ca_file, tls_cert_file=cert_file) as (pool, events):
            await connect(pool)
            write_file(tmp_path / "client.pem", certificate.private_key_pem.bytes())
            await connect(pool)
            await connect(pool)
            identity(tmp_path, certificate)
            await connect(pool)
        reports = [event for event in events if isinstance(event, TlsFilesRefused | TlsFilesRenewed)]
        assert [type(event) for event in reports] == [TlsFilesRefused, TlsFilesRenewed]
        assert f"tls_cert_file = {cert_file!r}: must be a PEM file with a certificate" in str(reports[0])

    async def test_group_reports_a_missing_file_at_once(self) -> None:
        with pytest.raises(ConfigError, match=r"tls_ca_file = '/no/such/ca.pem': cannot be read: No such file"):
            async with ConsumerGroup(
                ["localhost:9092"], "g", Config(security_protocol="SSL", tls_ca_file="/no/such/ca.pem")
            ):
                pass

    def test_missing_key_password_is_an_error_not_a_prompt(
        self, authority: trustme.CA, ca_file: str, tmp_path: Path
    ) -> None:
        certificate = authority.issue_cert("client.example")
        key = load_key(certificate.private_key_pem.bytes(), None)
        locked = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"sesame"))
        files = {
            "security_protocol": "SSL",
            "tls_ca_file": ca_file,
            "tls_cert_file": write_file(tmp_path / "cert.pem", *(pem.bytes() for pem in certificate.cert_chain_pems)),
            "tls_key_file": write_file(tmp_path / "key.pem", locked),
        }
        make_context(Config(**files, tls_key_password="sesame"))
        with pytest.raises(ConfigError, match="tls_key_password = None: must be given: the key is encrypted"):
            make_context(Config(**files))
        with pytest.raises(ConfigError, match=r"tls_key_password = \*\*\*: does not decrypt the key"):
            make_context(Config(**files, tls_key_password="simsim"))

    @pytest.mark.parametrize("name", ["tls_ca_file", "tls_cert_file"])
    def test_file_that_is_not_pem_is_refused(self, name: str, tmp_path: Path) -> None:
        file = write_file(tmp_path / "x.jks", b"\xfe\xed\xfe\xed")
        with pytest.raises(ConfigError, match=f"{name} = .*: must be a PEM file with"):
            make_context(Config(**{"security_protocol": "SSL", name: file}))

    def test_key_of_another_certificate_is_refused(self, authority: trustme.CA, tmp_path: Path) -> None:
        one, other = (authority.issue_cert("client.example") for _ in range(2))
        cert = write_file(tmp_path / "cert.pem", one.cert_chain_pems[0].bytes())
        key = write_file(tmp_path / "key.pem", other.private_key_pem.bytes())
        with pytest.raises(ConfigError, match=r"tls_key_file = .*: has a key that does not match the certificate"):
            make_context(Config(security_protocol="SSL", tls_cert_file=cert, tls_key_file=key))
