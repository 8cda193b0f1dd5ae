"""`sarameya run` that no broker takes, as a real process: it ends at once, says it once, and shows no secret."""

from __future__ import annotations

from pathlib import Path

import attrs
import pytest

from sarameya.embedded import EmbeddedCluster, SaslConfig
from tests.integration.test_run_command import Running, app_file, sarameya

pytestmark = pytest.mark.integration

CANARY = "canary-7c1f-of-a-password"
REMEDY = "correct sasl_username and sasl_password"


class Users(dict[str, str]):
    """A broker's, which counts how often it has looked for one: once for each authentication."""

    looks = 0

    def get(self, name: str, default: str | None = None) -> str | None:  # type: ignore[override]
        self.looks += 1
        return super().get(name, default)

    def __getitem__(self, name: str) -> str:
        self.looks += 1
        return super().__getitem__(name)


@attrs.frozen
class Refused:
    """What came of a run."""

    running: Running
    looks: int


async def refused(directory: Path, *arguments: str, mechanism: str = "PLAIN", service: str = "") -> Refused:
    """`sarameya run` with a password that is not the broker's, which has ended with exit code 2."""
    (directory / "password").write_text(CANARY)
    options = {
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": mechanism,
        "sasl_username": "alice",
        "sasl_password": f"file:{directory / 'password'}",
    }
    users = Users(alice="sesame")
    async with EmbeddedCluster({"orders": 2}, sasl=SaslConfig(users=users)) as cluster:
        app = app_file(
            directory,
            cluster.bootstrap_servers,
            extra="\n".join([*(f"{name} = {value!r}" for name, value in options.items()), service]),
        )
        async with sarameya(directory, "run", app, *arguments) as running:
            assert await running.process.wait() == 2, running.stderr
    assert CANARY not in running.stderr
    assert CANARY not in "".join(running.stdout)
    return Refused(running, users.looks)


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
async def test_wrong_password_is_told_in_one_line(tmp_path: Path, mechanism: str) -> None:
    seen = await refused(tmp_path, "--log-format", "text", mechanism=mechanism)
    (line,) = [line for line in seen.running.stderr.splitlines() if REMEDY in line]
    assert line.startswith("sarameya: error: 127.0.0.1:")
    assert f": {mechanism} as 'alice' was refused: " in line
    assert seen.looks == 1


async def test_wrong_password_is_one_error_of_a_json_log(tmp_path: Path) -> None:
    seen = await refused(tmp_path)
    (line,) = [line for line in seen.running.log if line["level"] == "ERROR"]
    assert line["message"].endswith(REMEDY)
    assert seen.running.stderr.count(REMEDY) == 1
    assert seen.looks == 1


async def test_wrong_password_is_not_tried_again_where_failures_are(tmp_path: Path) -> None:
    seen = await refused(tmp_path, service='[service]\non_failure = "restart"\nrestart_backoff = 0.1')
    assert seen.running.stderr.count(REMEDY) == 1
    assert seen.looks == 1


@pytest.mark.parametrize("log_format", ["text", "json"])
async def test_wrong_password_with_the_traceback_of_debug(tmp_path: Path, log_format: str) -> None:
    seen = await refused(tmp_path, "--debug", "--log-format", log_format)
    assert "Traceback" in seen.running.stderr
    told = [line for line in seen.running.stderr.splitlines() if REMEDY in line and "AuthenticationError" not in line]
    assert len(told) == 1
    assert seen.looks == 1


async def test_wrong_password_of_two_workers_is_told_once_by_each(tmp_path: Path) -> None:
    """The first that has ended ends the other, which may not have come so far."""
    seen = await refused(tmp_path, "--workers", "2")
    told = [line["worker"] for line in seen.running.log if line["level"] == "ERROR" and REMEDY in line["message"]]
    assert told
    assert len(told) == len(set(told)) == seen.running.stderr.count(REMEDY)
    assert seen.looks <= 2
