"""SASL with credentials of the machine: AWS credentials, and the error without any. Kerberos tickets are tested with a
real realm: tests/integration/test_kerberos.py."""

from __future__ import annotations

import importlib.util
import json
import re
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from botocore.auth import SigV4QueryAuth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from kafka.protocol.sasl import SaslAuthenticateResponse, SaslHandshakeResponse

from sarameya import AuthenticationError, Config, ConfigError, TokenError, install_command
from sarameya.net.security.authentication import authenticator_of
from sarameya.protocol.sasl.exchange import Exchange

HOST, REGION = "b-1.orders.kafka.eu-north-1.amazonaws.com", "eu-north-1"
MSK = Config(security_protocol="SASL_SSL", sasl_mechanism="AWS_MSK_IAM")
KEYS = {"AWS_ACCESS_KEY_ID": "AKIDEXAMPLE", "AWS_SECRET_ACCESS_KEY": "kAnarienv0gel", "AWS_DEFAULT_REGION": REGION}


@pytest.fixture(autouse=True)
def _no_credentials(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Hide all credentials of the machine, and disable requests for some."""
    for name in (*KEYS, "AWS_SESSION_TOKEN", "AWS_PROFILE", "AWS_REGION"):
        monkeypatch.delenv(name, raising=False)
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(name, str(tmp_path / "none"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")


@pytest.fixture
def _aws_credentials(_no_credentials: None, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in KEYS.items():
        monkeypatch.setenv(name, value)


async def begin_exchange(config: Config = MSK) -> Exchange:
    authenticator = authenticator_of(config)
    assert authenticator is not None
    exchange = await authenticator.begin(f"{HOST}:9098")
    exchange.receive_handshake(SaslHandshakeResponse(error_code=0, mechanisms=["AWS_MSK_IAM"]))
    return exchange


def authenticate_response(data: bytes, *, error: int = 0, lifetime: int = 0) -> Any:
    return SaslAuthenticateResponse(error_code=error, error_message=None, auth_bytes=data, session_lifetime_ms=lifetime)


def signed_by_botocore(fields: dict[str, str], token: str | None) -> str:
    """Return the signature by AWS's own library of a request to connect, made at the same time."""
    signer = SigV4QueryAuth(
        Credentials(KEYS["AWS_ACCESS_KEY_ID"], KEYS["AWS_SECRET_ACCESS_KEY"], token),
        "kafka-cluster",
        REGION,
        expires=int(fields["x-amz-expires"]),
    )
    query = {
        "Action": fields["action"],
        "X-Amz-Algorithm": fields["x-amz-algorithm"],
        "X-Amz-Credential": fields["x-amz-credential"],
        "X-Amz-Date": fields["x-amz-date"],
        "X-Amz-Expires": fields["x-amz-expires"],
        "X-Amz-SignedHeaders": fields["x-amz-signedheaders"],
    } | ({"X-Amz-Security-Token": token} if token else {})
    request = AWSRequest("GET", f"https://{HOST}/?{urlencode(query)}", headers={"host": HOST})
    request.context["timestamp"] = fields["x-amz-date"]
    return str(signer.signature(signer.string_to_sign(request, signer.canonical_request(request)), request))


@pytest.mark.usefixtures("_aws_credentials")
@pytest.mark.parametrize("token", [None, "a/role=s+token"])
async def test_signature_equals_the_one_of_botocore(token: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    if token:
        monkeypatch.setenv("AWS_SESSION_TOKEN", token)
    message = (await begin_exchange()).next_message
    assert message is not None
    fields = json.loads(message)
    assert (fields["host"], fields["action"], fields.get("x-amz-security-token")) == (
        HOST,
        "kafka-cluster:Connect",
        token,
    )
    assert fields["x-amz-signature"] == signed_by_botocore(fields, token)
    assert KEYS["AWS_SECRET_ACCESS_KEY"] not in message.decode()


@pytest.mark.usefixtures("_aws_credentials")
async def test_session_lifetime_comes_from_the_broker() -> None:
    exchange = await begin_exchange()
    exchange.receive(authenticate_response(b'{"version":"2020_10_22","request-id":"1"}', lifetime=900_000))
    assert (exchange.next_message, exchange.lifetime) == (None, 900.0)


@pytest.mark.usefixtures("_aws_credentials")
async def test_refused_credentials_are_an_authentication_error() -> None:
    exchange = await begin_exchange()
    with pytest.raises(
        AuthenticationError, match=r"AWS_MSK_IAM was refused: .*; allow kafka-cluster:Connect for these"
    ):
        exchange.receive(authenticate_response(b"", error=58))


@pytest.mark.usefixtures("_aws_credentials")
async def test_empty_response_is_an_authentication_error() -> None:
    exchange = await begin_exchange()
    with pytest.raises(AuthenticationError, match="does not confirm the authentication"):
        exchange.receive(authenticate_response(b""))


async def test_missing_credentials_are_a_token_error() -> None:
    with pytest.raises(TokenError, match=f"no AWS_MSK_IAM credentials for {HOST}:9098: botocore found no credentials"):
        await begin_exchange()


@pytest.mark.usefixtures("_aws_credentials")
async def test_missing_region_is_a_token_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_DEFAULT_REGION")
    with pytest.raises(TokenError, match=r"botocore reports: .*region.* Is AWS_DEFAULT_REGION set\?"):
        await begin_exchange()


@pytest.mark.parametrize(
    ("mechanism", "package", "extra"), [("GSSAPI", "gssapi", "kerberos"), ("AWS_MSK_IAM", "botocore", "aws")]
)
def test_missing_package_is_reported_with_its_install_command(
    mechanism: Any, package: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    find_spec = importlib.util.find_spec

    def find_all_but_package(name: str, within: str | None = None) -> ModuleSpec | None:
        return None if name == package else find_spec(name, within)

    monkeypatch.setattr(importlib.util, "find_spec", find_all_but_package)
    with pytest.raises(ConfigError, match=re.escape(f"needs {package}: {install_command(extra)}")):
        authenticator_of(Config(security_protocol="SASL_SSL", sasl_mechanism=mechanism))
