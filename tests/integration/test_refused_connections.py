"""`sarameya run` that a broker refuses: it ends at once, reports one error, and shows no secret.

Real processes, with the embedded broker, which counts attempts, and with Apache Kafka.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs
import pytest
import trustme
from confluent_kafka.admin import AclOperation, ResourceType

from sarameya import ErrorCode
from sarameya.embedded import EmbeddedCluster, SaslConfig
from sarameya.protocol.versions import Api
from tests.consumer.kit import edit_answers, on_request
from tests.integration.real_kafka import RealKafka
from tests.integration.real_kafka.security import USERS, expired
from tests.integration.test_run_command import Running, app_file, sarameya
from tests.integration.test_security import allow, security

pytestmark = pytest.mark.integration

CANARY = "canary-7c1f-of-a-password"
REMEDY = "correct sasl_username and sasl_password"


class Users(dict[str, str]):
    """Users of a broker, which count their lookups: one for each authentication."""

    lookups = 0

    def get(self, name: str, default: str | None = None) -> str | None:  # type: ignore[override]
        self.lookups += 1
        return super().get(name, default)

    def __getitem__(self, name: str) -> str:
        self.lookups += 1
        return super().__getitem__(name)


@attrs.frozen
class Refused:
    """The outcome of a run."""

    running: Running
    lookups: int


async def run_to_end(
    directory: Path,
    servers: list[str],
    options: Mapping[str, str],
    *arguments: str,
    service: str = "",
    code: int = 2,
    handler: str = "handlers_of_this_test:Taking",
) -> Running:
    """Run `sarameya run` with these options and a secret password. Check its exit code, and that it shows no secret."""
    (directory / "password").write_text(CANARY)
    extra = "\n".join([*(f"{name} = {value!r}" for name, value in options.items()), service])
    app = app_file(directory, servers, handler=handler, extra=extra)
    async with sarameya(directory, "run", app, *arguments) as running:
        assert await running.process.wait() == code, running.stderr
    assert CANARY not in running.stderr
    assert CANARY not in "".join(running.stdout)
    return running


def by_password(directory: Path, mechanism: str = "PLAIN") -> dict[str, str]:
    return {
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": mechanism,
        "sasl_username": "alice",
        "sasl_password": f"file:{directory / 'password'}",
    }


async def run_refused(directory: Path, *arguments: str, mechanism: str = "PLAIN", service: str = "") -> Refused:
    """Run `sarameya run` with a password that is not the broker's."""
    users = Users(alice="sesame")
    async with EmbeddedCluster({"orders": 2}, sasl=SaslConfig(users=users)) as cluster:
        options = by_password(directory, mechanism)
        running = await run_to_end(directory, cluster.bootstrap_servers, options, *arguments, service=service)
    return Refused(running, users.lookups)


def check_one_error(running: Running, *parts: str) -> None:
    """Check that the service has printed exactly one error, in a line that has these parts."""
    (line,) = [line for line in running.stderr.splitlines() if "error" in line.lower()]
    assert line.startswith("sarameya: error: ")
    for part in parts:
        assert part in line


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
async def test_wrong_password_is_reported_in_one_line(tmp_path: Path, mechanism: str) -> None:
    seen = await run_refused(tmp_path, "--log-format", "text", mechanism=mechanism)
    (line,) = [line for line in seen.running.stderr.splitlines() if REMEDY in line]
    assert line.startswith("sarameya: error: 127.0.0.1:")
    assert f": {mechanism} as 'alice' was refused: " in line
    assert seen.lookups == 1


async def test_wrong_password_is_one_error_of_a_json_log(tmp_path: Path) -> None:
    seen = await run_refused(tmp_path)
    (line,) = [line for line in seen.running.log if line["level"] == "ERROR"]
    assert line["message"].endswith(REMEDY)
    assert seen.running.stderr.count(REMEDY) == 1
    assert seen.lookups == 1


async def test_wrong_password_is_not_retried_despite_restart(tmp_path: Path) -> None:
    seen = await run_refused(tmp_path, service='[service]\non_failure = "restart"\nrestart_backoff = 0.1')
    assert seen.running.stderr.count(REMEDY) == 1
    assert seen.lookups == 1


@pytest.mark.parametrize("log_format", ["text", "json"])
async def test_wrong_password_has_a_traceback_at_debug_level(tmp_path: Path, log_format: str) -> None:
    seen = await run_refused(tmp_path, "--debug", "--log-format", log_format)
    assert "Traceback" in seen.running.stderr
    lines = [line for line in seen.running.stderr.splitlines() if REMEDY in line and "AuthenticationError" not in line]
    assert len(lines) == 1
    assert seen.lookups == 1


async def test_wrong_password_is_reported_at_most_once_by_each_worker(tmp_path: Path) -> None:
    """The first worker that ends also ends the other one, perhaps before it has reported its error."""
    seen = await run_refused(tmp_path, "--workers", "2")
    workers = [line["worker"] for line in seen.running.log if line["level"] == "ERROR" and REMEDY in line["message"]]
    assert workers
    assert len(workers) == len(set(workers)) == seen.running.stderr.count(REMEDY)
    assert seen.lookups <= 2


@pytest.mark.parametrize(
    ("is_known", "is_good", "problem"),
    [
        (False, True, "no trusted CA has signed the broker's certificate; set tls_ca_file"),
        (True, False, "has expired; renew it"),
    ],
    ids=["unknown CA", "expired certificate"],
)
async def test_refused_certificate_is_reported(tmp_path: Path, is_known: bool, is_good: bool, problem: str) -> None:
    authority, stranger = trustme.CA(), trustme.CA()
    (authority if is_known else stranger).cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    handshakes = 0

    def count(*_: object) -> None:
        nonlocal handshakes
        handshakes += 1

    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("127.0.0.1", **({} if is_good else expired())).configure_cert(context)
    context.sni_callback = count
    options = by_password(tmp_path) | {"security_protocol": "SASL_SSL", "tls_ca_file": str(tmp_path / "ca.pem")}
    async with EmbeddedCluster({"orders": 2}, tls=context, sasl=SaslConfig(users={"alice": CANARY})) as cluster:
        running = await run_to_end(tmp_path, cluster.bootstrap_servers, options, "--log-format", "text")
    check_one_error(running, "127.0.0.1:", problem)
    assert handshakes == 1


@pytest.mark.parametrize(
    ("api", "code", "remedy"),
    [
        (Api.METADATA, ErrorCode.TOPIC_AUTHORIZATION_FAILED, "grant this principal READ and DESCRIBE on the topic"),
        (Api.FIND_COORDINATOR, ErrorCode.GROUP_AUTHORIZATION_FAILED, "grant this principal READ on the group"),
        (Api.JOIN_GROUP, ErrorCode.GROUP_AUTHORIZATION_FAILED, "grant this principal READ on the group"),
    ],
    ids=["topic", "group", "group, at the join"],
)
async def test_missing_acl_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, api: Api, code: ErrorCode, remedy: str
) -> None:
    asked = 0

    def count(_: object) -> None:
        nonlocal asked
        asked += 1

    def forbid(_: object, answer: Any) -> None:
        for topic in answer.topics:
            topic.error_code, topic.partitions = code, []

    async with EmbeddedCluster({"orders": 2}, sasl=SaslConfig(users={"alice": CANARY})) as cluster:
        if api is Api.METADATA:
            edit_answers(monkeypatch, api, forbid)
            on_request(monkeypatch, api, count)
        else:
            cluster.fail_next(api, code, count=1000)
        options = by_password(tmp_path)
        running = await run_to_end(tmp_path, cluster.bootstrap_servers, options, "--log-format", "text")
        asked += sum(1000 - fault.remaining for fault in cluster.faults if fault.remaining is not None)
    check_one_error(running, remedy)
    assert 1 <= asked <= 2


@pytest.mark.parametrize("source", ["raises", "hangs"])
async def test_failed_token_request_is_reported_in_one_line(tmp_path: Path, source: str) -> None:
    (tmp_path / "tokens.py").write_text(f"""
import time

def raises():
    raise ValueError("POST /token?client_secret={CANARY} gave 401")

def hangs():
    time.sleep(1000)
""")
    options = {
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "OAUTHBEARER",
        "sasl_token": f"tokens:{source}",
    }
    service = "connect_timeout = 0.5"
    async with EmbeddedCluster({"orders": 2}, sasl=SaslConfig()) as cluster:
        running = await run_to_end(
            tmp_path, cluster.bootstrap_servers, options, "--log-format", "text", service=service, code=1
        )
    problem = {
        "raises": "raised ValueError: POST /token?client_secret=*** gave 401",
        "hangs": "returned nothing within 0.5 s",
    }
    assert running.stderr.splitlines()[-1] == f"sarameya: error: sasl_token {problem[source]} (gave up after 2 s)"


class TestApacheKafka:
    """The same refusals by a real broker."""

    async def test_wrong_password_exits_with_code_2(self, tmp_path: Path, real_kafka_secured: RealKafka) -> None:
        servers = real_kafka_secured.at("SASL_PLAIN")
        running = await run_to_end(tmp_path, servers, by_password(tmp_path, "SCRAM-SHA-512"), "--log-format", "text")
        check_one_error(running, "SCRAM-SHA-512 as 'alice' was refused: ", REMEDY)

    async def test_unknown_authority_exits_with_code_2(self, tmp_path: Path, real_kafka_secured: RealKafka) -> None:
        trustme.CA().cert_pem.write_to_path(str(tmp_path / "ca.pem"))
        options = {"security_protocol": "SSL", "tls_ca_file": str(tmp_path / "ca.pem")}
        running = await run_to_end(tmp_path, real_kafka_secured.at("SSL"), options, "--log-format", "text")
        check_one_error(running, "no trusted CA has signed the broker's certificate; set tls_ca_file")

    async def test_expired_certificate_exits_with_code_2(self, tmp_path: Path, real_kafka_secured: RealKafka) -> None:
        options = {"security_protocol": "SSL", "tls_ca_file": security(real_kafka_secured).ca_file}
        running = await run_to_end(tmp_path, real_kafka_secured.at("EXPIRED"), options, "--log-format", "text")
        check_one_error(running, "has expired; renew it")

    @pytest.mark.parametrize("kind", ["topic", "group"])
    async def test_missing_acl_exits_with_code_2(
        self, tmp_path: Path, real_kafka_secured: RealKafka, kind: str
    ) -> None:
        topic = "orders"
        if topic not in real_kafka_secured.admin().list_topics().topics:
            real_kafka_secured.create_topic(topic, 1)
        (tmp_path / "sesame").write_text(USERS["bob"])
        options = {
            "security_protocol": "SASL_PLAINTEXT",
            "sasl_mechanism": "PLAIN",
            "sasl_username": "bob",
            "sasl_password": f"file:{tmp_path / 'sesame'}",
        }
        if kind == "topic":
            allow(real_kafka_secured, ResourceType.TOPIC, topic, "bob", AclOperation.DESCRIBE)
        else:
            allow(real_kafka_secured, ResourceType.GROUP, "g", "alice")
        running = await run_to_end(tmp_path, real_kafka_secured.at("SASL_PLAIN"), options, "--log-format", "text")
        check_one_error(
            running,
            {"topic": "grant this principal READ and DESCRIBE on", "group": "grant this principal READ on"}[kind],
        )
        assert USERS["bob"] not in running.stderr
