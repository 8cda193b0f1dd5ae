"""Rules for combinations of the security options. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Protocol

from sarameya.errors import ConfigError
from sarameya.secret import Secret


class SecurityOptions(Protocol):
    """Security options of `Config`."""

    @property
    def security_protocol(self) -> str: ...

    @property
    def tls_ca_file(self) -> str | None: ...

    @property
    def tls_cert_file(self) -> str | None: ...

    @property
    def tls_key_file(self) -> str | None: ...

    @property
    def tls_key_password(self) -> Secret | None: ...

    @property
    def tls_check_hostname(self) -> bool: ...

    @property
    def sasl_mechanism(self) -> str | None: ...

    @property
    def sasl_username(self) -> str | None: ...

    @property
    def sasl_password(self) -> Secret | None: ...

    @property
    def sasl_token(self) -> Any: ...

    @property
    def sasl_kerberos_service(self) -> str: ...


KERBEROS_SERVICE = "kafka"
"""Usual service name of brokers in Kerberos."""


def requires_tls(options: SecurityOptions) -> bool:
    """Return whether the listener requires TLS."""
    return options.security_protocol.endswith("SSL")


def requires_sasl(options: SecurityOptions) -> bool:
    """Return whether the listener requires SASL."""
    return options.security_protocol.startswith("SASL_")


def security_conflicts(options: SecurityOptions) -> Iterator[ConfigError]:
    """Yield security options that have no effect, or that require another option that is not set."""
    yield from _tls_conflicts(options)
    yield from _sasl_conflicts(options)


def _tls_conflicts(options: SecurityOptions) -> Iterator[ConfigError]:
    if not requires_tls(options):
        for name in ("tls_ca_file", "tls_cert_file", "tls_key_file", "tls_key_password"):
            if (value := getattr(options, name)) is not None:
                yield ConfigError(name, value, _NO_TLS)
        if not options.tls_check_hostname:
            yield ConfigError("tls_check_hostname", False, _NO_TLS)
    if options.tls_cert_file is None:
        for name in ("tls_key_file", "tls_key_password"):
            if (value := getattr(options, name)) is not None:
                yield ConfigError(name, value, "must go with tls_cert_file, the certificate that the key belongs to")


def _sasl_conflicts(options: SecurityOptions) -> Iterator[ConfigError]:
    if not requires_sasl(options):
        for name in ("sasl_mechanism", "sasl_username", "sasl_password", "sasl_token"):
            if (value := getattr(options, name)) is not None:
                yield ConfigError(name, value, _NO_SASL)
        yield from _kerberos_conflicts(options)
        return
    if options.sasl_mechanism is None:
        yield ConfigError(
            "sasl_mechanism", None, f"must be given with security_protocol = {options.security_protocol!r}"
        )
        return
    wanted = _CREDENTIALS[options.sasl_mechanism]
    for name in ("sasl_username", "sasl_password", "sasl_token"):
        value = getattr(options, name)
        if name in wanted and not value:
            yield ConfigError(name, value, f"must be given: {options.sasl_mechanism} sends it to the broker")
        if name not in wanted and value is not None:
            sent = " and ".join(wanted) or "the credentials of this machine"
            yield ConfigError(name, value, f"has no meaning for {options.sasl_mechanism}, which uses {sent}")
    if options.sasl_username is not None and "\0" in options.sasl_username:
        yield ConfigError("sasl_username", options.sasl_username, "must not have a NUL in it")
    yield from _kerberos_conflicts(options)
    if options.sasl_mechanism == "AWS_MSK_IAM" and not requires_tls(options):
        yield ConfigError(
            "security_protocol",
            options.security_protocol,
            "must be 'SASL_SSL' for AWS_MSK_IAM: MSK accepts it only over TLS",
        )


def _kerberos_conflicts(options: SecurityOptions) -> Iterator[ConfigError]:
    service = options.sasl_kerberos_service
    if not service or set(service) & set("@/"):
        yield ConfigError("sasl_kerberos_service", service, "must be a name without host and realm, such as 'kafka'")
    if options.sasl_mechanism != "GSSAPI" and service != KERBEROS_SERVICE:
        yield ConfigError("sasl_kerberos_service", service, "must go with sasl_mechanism = 'GSSAPI'")


_WITH_PASSWORD = ("sasl_username", "sasl_password")
_CREDENTIALS: Mapping[str, tuple[str, ...]] = {
    "PLAIN": _WITH_PASSWORD,
    "SCRAM-SHA-256": _WITH_PASSWORD,
    "SCRAM-SHA-512": _WITH_PASSWORD,
    "OAUTHBEARER": ("sasl_token",),
    "GSSAPI": (),
    "AWS_MSK_IAM": (),
}
"""Options with the credentials of each mechanism; none if it uses the machine's credentials (a ticket, a role)."""

_NO_SASL = "requires security_protocol = 'SASL_SSL' or 'SASL_PLAINTEXT': other protocols have no authentication"
_NO_TLS = "requires security_protocol = 'SSL' or 'SASL_SSL': other protocols use no TLS"
