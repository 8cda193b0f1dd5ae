"""What a client's security options leave open, though they are allowed. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from sarameya.config import Config
from sarameya.observe import WeakSecurity

_TOLD_OPENLY = {"PLAIN": "the password", "OAUTHBEARER": "the token"}


def weaknesses(config: Config) -> Iterator[WeakSecurity]:
    """An event for each."""
    if config.security_protocol == "SASL_PLAINTEXT" and config.sasl_mechanism in _TOLD_OPENLY:
        what = _TOLD_OPENLY[config.sasl_mechanism]
        yield WeakSecurity(
            "security_protocol",
            f"whoever listens has {what}, which {config.sasl_mechanism} tells as it is; use SASL_SSL",
        )
    if not config.tls_check_hostname:
        yield WeakSecurity("tls_check_hostname", "who has a certificate for any host may be taken for the broker")
