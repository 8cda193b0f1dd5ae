"""Host names that requests for pages may use."""

from __future__ import annotations

import pytest

from sarameya.service.web.host_check import AllowedHosts


@pytest.mark.parametrize(
    "host",
    ["10.0.0.7", "10.0.0.7:8080", "[fe80::1]:8080", "orders", "Orders:80", "pod-1.internal", "localhost", "localhost."],
)
def test_addresses_and_local_names_are_allowed(host: str) -> None:
    assert AllowedHosts(own="pod-1.internal").allows(host)


@pytest.mark.parametrize(
    "host",
    ["evil.example", "10.0.0.7.evil.example", "a@10.0.0.7.x", "", ":80", "[::1", "a b", "10.0.0.7:80:80", "pod-1.evil"],
)
def test_other_names_are_refused(host: str) -> None:
    assert not AllowedHosts(own="pod-1.internal").allows(host)
    assert not AllowedHosts(is_local=True).allows(host)


def test_configured_names_are_allowed() -> None:
    names = AllowedHosts(is_local=True, named=["Orders.example.com", "*.svc.local"])
    allowed = ["orders.example.com", "ORDERS.example.com:443", "orders.example.com.", "a.svc.local", "a.b.svc.local"]
    assert all(map(names.allows, allowed))
    assert not any(map(names.allows, ["x.orders.example.com", "svc.local", "asvc.local", "example.com", "10.0.0.7"]))
    assert AllowedHosts(is_local=True, named=["*"]).allows("evil.example")


@pytest.mark.parametrize(
    ("address", "is_local"),
    [("127.0.0.1:1", True), ("127.8.8.8:1", True), ("[::1]:1", True), ("localhost:1", True), ("0.0.0.0:1", False),
     ("[::]:1", False), ("10.0.0.7:1", False), ("orders:1", False)],
)  # fmt: skip
def test_loopback_address_is_local_only(address: str, is_local: bool) -> None:
    assert AllowedHosts.of(address).is_local is is_local
