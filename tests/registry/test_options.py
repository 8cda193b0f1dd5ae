from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sarameya import ConfigError
from sarameya.registry.client import Registry
from sarameya.registry.options import RegistryOptions


def test_options_are_read_from_a_table() -> None:
    options = RegistryOptions.from_options({"url": ["http://a", "https://b:8081/apis"], "token": "t", "timeout": 3})
    assert options == RegistryOptions(url=("http://a", "https://b:8081/apis"), token="t", timeout=3)


@pytest.mark.parametrize(
    ("options", "named", "problem"),
    [
        ("http://a", "registry", "must be a table"),
        ({}, "registry.url", "is required"),
        ({"url": []}, "registry.url", "must be the registry's URL"),
        ({"url": 5}, "registry.url", "must be the registry's URL"),
        ({"url": "a:8081"}, "registry.url", "begins with http"),
        ({"url": "file:///etc/passwd"}, "registry.url", "begins with http"),
        ({"url": "http://[::1"}, "registry.url", "begins with http"),
        ({"url": "http://a:abc"}, "registry.url", "begins with http"),
        ({"url": "http://a", "token": "secrét"}, "registry.token", "ASCII"),
        ({"url": "http://me:secret@a"}, "registry.url", "must have no user"),
        ({"url": "http://a", "username": "me"}, "registry.username", "set together"),
        ({"url": "http://a", "password": "secret"}, "registry.username", "set together"),
        ({"url": "http://a", "username": "m:e", "password": "secret"}, "registry.username", "no colon"),
        ({"url": "http://a", "username": "me", "password": "secret", "token": "t"}, "registry.token", "combined"),
        ({"url": "http://a", "token": "secret\r\nHost: b"}, "registry.token", "on one line"),
        ({"url": "http://a", "timeout": 0}, "registry.timeout", "above 0"),
        ({"url": "http://a", "timeout": True}, "registry.timeout", "above 0"),
        ({"url": "http://a", "ca_file": "/not/there"}, "registry.ca_file", "an existing file"),
        ({"url": "http://a", "pasword": "secret"}, "registry.pasword", "password"),
    ],
)
def test_wrong_option_is_named_with_the_reason(options: Any, named: str, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem) as raised:
        RegistryOptions.from_options(options)
    assert raised.value.option == named
    assert "secret" not in str(raised.value)


def test_ca_file_without_certificates_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "ca.pem"
    file.write_text("none")
    with pytest.raises(ConfigError, match="must hold certificates"):
        Registry(RegistryOptions(url="https://a", ca_file=str(file)))
