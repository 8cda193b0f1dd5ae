"""Warnings about security options that are allowed, but weak. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from sarameya.config import Config
from sarameya.observe import WeakSecurity

_SENT_UNENCRYPTED = {"PLAIN": "the password", "OAUTHBEARER": "the token"}


def weaknesses(config: Config) -> Iterator[WeakSecurity]:
    """Yield an event for each weakness."""
    if config.security_protocol == "SASL_PLAINTEXT" and config.sasl_mechanism in _SENT_UNENCRYPTED:
        what = _SENT_UNENCRYPTED[config.sasl_mechanism]
        yield WeakSecurity(
            "security_protocol",
            f"{config.sasl_mechanism} sends {what} unencrypted, so anybody on the network can read it; use SASL_SSL",
        )
    if not config.tls_check_hostname:
        yield WeakSecurity("tls_check_hostname", "any host with a trusted certificate can impersonate the broker")
