"""Bootstrap servers as users write them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from sarameya import ConfigError, Consumer, ConsumerGroup, Producer
from sarameya.net.bootstrap import parse_bootstrap
from sarameya.service.app.cluster_arguments import server_list
from sarameya.service.app.environment import variables

TWO = [("a", 9092), ("b", 9093)]


def addresses(servers: Any) -> list[tuple[str, int]]:
    return [(broker.host, broker.port) for broker in parse_bootstrap(servers)]


@pytest.mark.parametrize(
    "servers",
    ["a:9092,b:9093", "a:9092, b:9093", ["a:9092,b:9093"], ["a:9092", "b:9093"], ("a:9092", " b:9093 ")],
)
def test_fault_50_comma_separated_servers_are_split(servers: Sequence[str] | str) -> None:
    assert addresses(servers) == TWO
    assert [broker.node_id for broker in parse_bootstrap(servers)] == [-1, -2]


@pytest.mark.parametrize("scheme", ["PLAINTEXT://", "SASL_SSL://", "kafka+ssl://"])
@pytest.mark.parametrize("make", [ConsumerGroup, Consumer, Producer, parse_bootstrap])
def test_fault_50_server_with_a_protocol_is_refused(make: Callable[..., Any], scheme: str) -> None:
    arguments = ("g",) if make is ConsumerGroup else ()
    for servers in (f"{scheme}host:9092", [f"a:9092,{scheme}host:9092"]):
        with pytest.raises(ConfigError, match="bootstrap_servers") as caught:
            make(servers, *arguments)
        assert f"must be HOST:PORT without '{scheme}'" in str(caught.value)
        assert "security_protocol" in str(caught.value)


@pytest.mark.parametrize(
    "servers",
    [
        *("", ",", "a", "a:9092,", "a:9092,,b:9092", "a,b:9092", "a:9092;b:9092", "a:9092 b:9092", "a/b:9092"),
        *("a:9092:9093", ":9092", "a:", "a:0", "a:65536", "a:-1", "a:٣", "[a]:9092", "[]:9092", "[::1:9092"),
        *([], [""], [9092], [None], [b"a:9092"]),
    ],
)
def test_fault_50_invalid_address_is_refused(servers: Any) -> None:
    with pytest.raises(ConfigError, match="bootstrap_servers"):
        parse_bootstrap(servers)


@pytest.mark.parametrize(
    ("server", "host"),
    [("[::1]:9092", "::1"), ("::1:9092", "::1"), ("10.0.0.1:9092", "10.0.0.1"), ("k-0.k.svc_x:9092", "k-0.k.svc_x")],
)
def test_server_by_name_or_address_is_accepted(server: str, host: str) -> None:
    assert addresses([server]) == [(host, 9092)]


def test_fault_50_environment_and_arguments_split_at_commas() -> None:
    (found,), problems = variables({"SARAMEYA_BOOTSTRAP_SERVERS": "a:9092,b:9093"}, {})
    assert (found.value, problems) == (["a:9092", "b:9093"], [])
    assert server_list("a:9092,b:9093") == ("a:9092", "b:9093")
    with pytest.raises(Exception, match="must be HOST:PORT without 'PLAINTEXT://'"):
        server_list("PLAINTEXT://a:9092")
