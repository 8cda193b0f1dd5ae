"""Security options and their valid combinations."""

from __future__ import annotations

from typing import Any

import pytest

from sarameya import Config, ConfigError, Secret

ALICE = {"sasl_username": "alice", "sasl_password": "sesame"}


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"tls_ca_file": "ca.pem"}, "tls_ca_file = 'ca.pem': requires security_protocol = 'SSL'"),
        ({"tls_check_hostname": False}, "tls_check_hostname = False: requires security_protocol = 'SSL'"),
        ({"security_protocol": "SSL", "tls_key_file": "k"}, "tls_key_file = 'k': must go with tls_cert_file"),
        ({"security_protocol": "SSL", "tls_key_password": "k"}, r"tls_key_password = \*\*\*: must go with tls_cert_f"),
        ({"security_protocol": "TLS"}, "security_protocol = 'TLS': must be one of 'PLAINTEXT', 'SSL'"),
        ({"sasl_mechanism": "PLAIN"}, "sasl_mechanism = 'PLAIN': requires security_protocol = 'SASL_SSL'"),
        ({"security_protocol": "SASL_SSL"}, "sasl_mechanism = None: must be given with security_protocol = 'SASL_SSL'"),
        ({"security_protocol": "SASL_SSL", "sasl_mechanism": "PLAIN"}, "sasl_username = None: must be given"),
        (
            {"security_protocol": "SASL_SSL", "sasl_mechanism": "OAUTHBEARER"},
            "sasl_token = .*: must be given: OAUTHBEARER sends",
        ),
        (
            {"security_protocol": "SASL_SSL", "sasl_mechanism": "PLAIN", **ALICE, "sasl_token": len},
            "sasl_token = .*: has no meaning for PLAIN",
        ),
        ({"security_protocol": "SASL_SSL", "sasl_mechanism": "NTLM"}, "sasl_mechanism = 'NTLM': must be one of"),
        (
            {"security_protocol": "SASL_SSL", "sasl_mechanism": "GSSAPI", **ALICE},
            "sasl_username = 'alice': has no meaning for GSSAPI, which uses the credentials of this machine",
        ),
        (
            {"security_protocol": "SASL_SSL", "sasl_mechanism": "PLAIN", **ALICE, "sasl_kerberos_service": "bus"},
            "sasl_kerberos_service = 'bus': must go with sasl_mechanism = 'GSSAPI'",
        ),
        ({"sasl_kerberos_service": "bus"}, "sasl_kerberos_service = 'bus': must go with sasl_mechanism = 'GSSAPI'"),
        (
            {"security_protocol": "SASL_SSL", "sasl_mechanism": "GSSAPI", "sasl_kerberos_service": "kafka/host"},
            "sasl_kerberos_service = 'kafka/host': must be a name without host and realm",
        ),
        (
            {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "AWS_MSK_IAM"},
            "security_protocol = 'SASL_PLAINTEXT': must be 'SASL_SSL' for AWS_MSK_IAM",
        ),
        ({"security_protocol": "SASL_SSL", "sasl_mechanism": "OAUTHBEARER", "sasl_token": "x"}, "must be a function"),
        (
            {"security_protocol": "SASL_SSL", "sasl_mechanism": "PLAIN", "sasl_username": "a\0b", "sasl_password": "x"},
            "must not have a NUL",
        ),
        ({"security_protocol": "SSL", "tls_check_hostname": 1}, "tls_check_hostname = 1: must be true or false"),
        ({"security_protocol": "SSL", "tls_ca_file": 1}, "tls_ca_file = 1: must be a string"),
    ],
)
def test_conflicting_security_options_are_refused(options: dict[str, Any], problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        Config(**options)


@pytest.mark.parametrize(
    "options",
    [
        {"security_protocol": "SSL"},
        {"security_protocol": "SSL", "tls_ca_file": "ca.pem", "tls_cert_file": "me.pem", "tls_key_password": "x"},
        {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "PLAIN", **ALICE},
        {"security_protocol": "SASL_SSL", "sasl_mechanism": "SCRAM-SHA-512", **ALICE, "tls_check_hostname": False},
        {"security_protocol": "SASL_SSL", "sasl_mechanism": "OAUTHBEARER", "sasl_token": str},
        {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "GSSAPI", "sasl_kerberos_service": "bus"},
        {"security_protocol": "SASL_SSL", "sasl_mechanism": "AWS_MSK_IAM"},
    ],
)
def test_valid_security_options_are_accepted(options: dict[str, Any]) -> None:
    config = Config(**options)
    assert all(
        name in ("sasl_password", "tls_key_password") or getattr(config, name) == options[name] for name in options
    )


def test_password_is_a_secret_and_not_in_the_repr() -> None:
    config = Config(security_protocol="SASL_SSL", sasl_mechanism="PLAIN", **ALICE)
    assert config.sasl_password == Secret("sesame")
    assert "sesame" not in repr(config)
