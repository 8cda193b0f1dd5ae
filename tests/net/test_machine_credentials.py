"""SASL by what the machine has: AWS's credentials, and what is said where there are none. Kerberos' tickets are tried
before a realm: tests/integration/test_kerberos.py."""

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
def _poor(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A machine without any credentials, which asks nobody for some."""
    for name in (*KEYS, "AWS_SESSION_TOKEN", "AWS_PROFILE", "AWS_REGION"):
        monkeypatch.delenv(name, raising=False)
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(name, str(tmp_path / "none"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")


@pytest.fixture
def _rich(_poor: None, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in KEYS.items():
        monkeypatch.setenv(name, value)


async def begun(config: Config = MSK) -> Exchange:
    authenticator = authenticator_of(config)
    assert authenticator is not None
    exchange = await authenticator.begin(f"{HOST}:9098")
    exchange.receive_handshake(SaslHandshakeResponse(error_code=0, mechanisms=["AWS_MSK_IAM"]))
    return exchange


def answer(word: bytes, *, error: int = 0, lifetime: int = 0) -> Any:
    return SaslAuthenticateResponse(error_code=error, error_message=None, auth_bytes=word, session_lifetime_ms=lifetime)


def signed_by_botocore(said: dict[str, str], token: str | None) -> str:
    """The signature that AWS's own library gives a request for leave to connect, at the time that is said."""
    signer = SigV4QueryAuth(
        Credentials(KEYS["AWS_ACCESS_KEY_ID"], KEYS["AWS_SECRET_ACCESS_KEY"], token),
        "kafka-cluster",
        REGION,
        expires=int(said["x-amz-expires"]),
    )
    query = {
        "Action": said["action"],
        "X-Amz-Algorithm": said["x-amz-algorithm"],
        "X-Amz-Credential": said["x-amz-credential"],
        "X-Amz-Date": said["x-amz-date"],
        "X-Amz-Expires": said["x-amz-expires"],
        "X-Amz-SignedHeaders": said["x-amz-signedheaders"],
    } | ({"X-Amz-Security-Token": token} if token else {})
    request = AWSRequest("GET", f"https://{HOST}/?{urlencode(query)}", headers={"host": HOST})
    request.context["timestamp"] = said["x-amz-date"]
    return str(signer.signature(signer.string_to_sign(request, signer.canonical_request(request)), request))


@pytest.mark.usefixtures("_rich")
@pytest.mark.parametrize("token", [None, "a/role=s+token"])
async def test_word_is_signed_as_aws_signs(token: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    if token:
        monkeypatch.setenv("AWS_SESSION_TOKEN", token)
    word = (await begun()).next_message
    assert word is not None
    said = json.loads(word)
    assert (said["host"], said["action"], said.get("x-amz-security-token")) == (HOST, "kafka-cluster:Connect", token)
    assert said["x-amz-signature"] == signed_by_botocore(said, token)
    assert KEYS["AWS_SECRET_ACCESS_KEY"] not in word.decode()


@pytest.mark.usefixtures("_rich")
async def test_broker_takes_it_for_a_time() -> None:
    exchange = await begun()
    exchange.receive(answer(b'{"version":"2020_10_22","request-id":"1"}', lifetime=900_000))
    assert (exchange.next_message, exchange.lifetime) == (None, 900.0)


@pytest.mark.usefixtures("_rich")
async def test_broker_does_not_take_it() -> None:
    exchange = await begun()
    with pytest.raises(
        AuthenticationError, match=r"AWS_MSK_IAM was refused: .*; allow kafka-cluster:Connect for these"
    ):
        exchange.receive(answer(b"", error=58))


@pytest.mark.usefixtures("_rich")
async def test_broker_that_says_nothing_has_not_taken_it() -> None:
    exchange = await begun()
    with pytest.raises(AuthenticationError, match="does not confirm the authentication"):
        exchange.receive(answer(b""))


async def test_no_credentials_are_nothing_to_show() -> None:
    with pytest.raises(TokenError, match=f"no AWS_MSK_IAM credentials for {HOST}:9098: botocore found no credentials"):
        await begun()


@pytest.mark.usefixtures("_rich")
async def test_no_region_is_nothing_to_show(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_DEFAULT_REGION")
    with pytest.raises(TokenError, match=r"botocore reports: .*region.* Is AWS_DEFAULT_REGION set\?"):
        await begun()


@pytest.mark.parametrize(
    ("mechanism", "package", "extra"), [("GSSAPI", "gssapi", "kerberos"), ("AWS_MSK_IAM", "botocore", "aws")]
)
def test_package_that_is_missing_is_said(
    mechanism: Any, package: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = importlib.util.find_spec

    def found(name: str, within: str | None = None) -> ModuleSpec | None:
        return None if name == package else there(name, within)

    monkeypatch.setattr(importlib.util, "find_spec", found)
    with pytest.raises(ConfigError, match=re.escape(f"needs {package}: {install_command(extra)}")):
        authenticator_of(Config(security_protocol="SASL_SSL", sasl_mechanism=mechanism))
