"""Contenders and their commands."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.members import clients
from bench.members.clients import CLIENTS, JAVA, Contender
from bench.members.protocol import MemberTask


@pytest.mark.parametrize("client", [client for client in CLIENTS if client != JAVA])
def test_command_ends_with_the_task(client: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clients, "maven_jars", lambda *_: Path("jars"))
    contender = Contender("one", client, "loop", {"option": 1}, commits=True)

    assert MemberTask.of_json(contender.command("127.0.0.1:9092", "t", "g", 4, pace=0.5)[-1]) == MemberTask(
        "127.0.0.1:9092", "t", "g", 4, "loop", {"option": 1}, commits=True, pace=0.5
    )


def test_only_sarameya_is_ours() -> None:
    assert [client for client in CLIENTS if Contender("one", client).is_ours] == ["sarameya"]


def test_unknown_client_is_refused() -> None:
    with pytest.raises(ValueError, match="somebody"):
        Contender("one", "somebody")
