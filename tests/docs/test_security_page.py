"""Examples of docs/security.md run, and its texts match the code."""

from __future__ import annotations

import re
import ssl
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest

from sarameya import ClaimError, Config, ErrorCode, Secret, Token, TopicAuthorizationError, TopicPartition
from sarameya.net.security.tls import _REASONS, _VERIFY
from tests.docs.pages import blocks, page

PAGE = page("security")


def test_app_file_is_valid(tmp_path: Path) -> None:
    [text] = blocks(PAGE, "toml")
    (tmp_path / "password").write_text("sesame\n")
    options = tomllib.loads(text.replace("/run/secrets/kafka-password", str(tmp_path / "password")))["config"]
    config = Config.from_mapping(options)
    assert (config.sasl_mechanism, config.sasl_password) == ("SCRAM-SHA-512", Secret("sesame"))


async def test_token_example_returns_a_token() -> None:
    text, _ = blocks(PAGE, "python")
    names: dict[str, Any] = {}
    exec(compile(text, "security.md", "exec"), names)
    assert await names["config"].sasl_token() == Token("eyJhbGciOi...", {"logicalCluster": "lkc-1"})


@pytest.mark.parametrize("is_bare", [True, False])
async def test_unauthorized_topic_raises_the_documented_error(
    is_bare: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    _, text = blocks(PAGE, "python")
    names: dict[str, Any] = {}
    exec(compile(text, "security.md", "exec"), names)
    refused = TopicAuthorizationError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "orders")
    failed = ClaimError(TopicPartition("orders", 0), 5, 1, refused)

    class Refused:
        async def consume(self, topics: list[str], handler: object) -> None:
            raise refused if is_bare else ExceptionGroup("", [refused, failed])

    await names["consume"](Refused(), None)
    expected = ["not allowed: orders: TOPIC_AUTHORIZATION_FAILED (29)", f"failed: {failed}"]
    assert capsys.readouterr().out.splitlines() == expected[: 1 if is_bare else 2]


def test_error_messages_equal_the_code() -> None:
    table = PAGE.partition("| text | means |")[2].partition("\n\n")[0]
    problems = {problem for problem, _ in [*_VERIFY.values(), *_REASONS.values()]}
    documented = [text for row in table.splitlines() for text in re.findall(r"`([^`]+)`", row.split(" | ")[0])]
    of_certificates = [text for text in documented if "certificate" in text]
    assert len(of_certificates) == 6
    assert [text for text in of_certificates if not any(text in problem for problem in problems)] == []


@pytest.mark.integration
def test_documented_commands_convert_a_key_store(tmp_path: Path) -> None:
    [text] = blocks(PAGE, "sh")
    make = "keytool -genkeypair -keystore client.jks -storetype JKS -keyalg RSA -alias me -dname CN=me"
    secret = {"keytool": "-srcstorepass changeit -deststorepass changeit", "openssl": "-passin pass:changeit"}
    run(tmp_path, f"{make} -storepass changeit -keypass changeit")
    for command in text.splitlines():
        run(tmp_path, f"{command} {secret[command.split()[0]]}")
    ssl.create_default_context().load_cert_chain(tmp_path / "client.pem")


def run(directory: Path, command: str) -> None:
    subprocess.run(command.split(), cwd=directory, check=True, capture_output=True, timeout=60)
