"""Authenticating listeners of a real Kafka, and the certificates of both sides.

| listener        | speaks         | asks                                                       |
|-----------------|----------------|------------------------------------------------------------|
| SSL             | TLS            | nobody                                                     |
| MTLS            | TLS            | for a client certificate                                   |
| OTHER_NAME      | TLS            | nobody; its certificate is for another host                |
| EXPIRED         | TLS            | nobody; its certificate has expired                        |
| SASL_SSL        | TLS            | PLAIN, SCRAM, OAUTHBEARER (unsecured tokens)               |
| SASL_SSL_REAUTH | TLS            | the same, and anew every REAUTH_SECONDS                    |
| SASL_PLAIN      | nothing hidden | the same, and anew every REAUTH_SECONDS                    |
| KERBEROS        | nothing hidden | GSSAPI, and anew every REAUTH_SECONDS                      |
"""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from itertools import product
from pathlib import Path
from typing import TypedDict, Unpack

import attrs
import trustme
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_pem_private_key

from tests.integration.real_kafka.kerberos import HOST_NAME, KERBEROS_SERVICE, SERVICE, Realm

LISTENERS: Mapping[str, str] = {
    "SSL": "SSL",
    "MTLS": "SSL",
    "OTHER_NAME": "SSL",
    "EXPIRED": "SSL",
    "SASL_SSL": "SASL_SSL",
    "SASL_SSL_REAUTH": "SASL_SSL",
    "SASL_PLAIN": "SASL_PLAINTEXT",
    "KERBEROS": "SASL_PLAINTEXT",
}
"""Each with the security protocol that it speaks."""
USERS: Mapping[str, str] = {"alice": "sesame", "bob": 's,i=m,s"im'}
REAUTH_SECONDS = 5.0
_MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
_REAUTHENTICATING = ("sasl_ssl_reauth", "sasl_plain")
_MODULES = "org.apache.kafka.common.security"


class Validity(TypedDict, total=False):
    """The validity of a certificate, as trustme takes it."""

    not_before: datetime
    not_after: datetime


def expired() -> Validity:
    """A certificate was good, and is not any more."""
    now = datetime.now(UTC)
    return Validity(not_before=now - timedelta(days=10), not_after=now - timedelta(days=1))


def _pem(certificate: trustme.LeafCert) -> bytes:
    """Key and chain in one; Java takes keys in PKCS#8 alone."""
    key = load_pem_private_key(certificate.private_key_pem.bytes(), None)
    pkcs8 = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return pkcs8 + b"".join(pem.bytes() for pem in certificate.cert_chain_pems)


@attrs.define
class Security:
    """Certificates and properties of a cluster whose files are in `directory`."""

    directory: Path
    realm: Realm
    authority: trustme.CA = attrs.field(factory=trustme.CA)

    @property
    def ca_file(self) -> str:
        """Certificate by which its brokers are known."""
        return str(self.directory / "ca.pem")

    def identity(self, name: str, authority: trustme.CA | None = None, **validity: Unpack[Validity]) -> str:
        """A file with a client's certificate and key, of this authority or another."""
        path = self.directory / f"{name}.pem"
        issued = (authority or self.authority).issue_cert(f"{name}.example", common_name=name, **validity)
        path.write_bytes(_pem(issued))
        return str(path)

    def properties(self) -> dict[str, str]:
        """The brokers'; writes their files."""
        self.directory.mkdir(parents=True, exist_ok=True)
        self.authority.cert_pem.write_to_path(self.ca_file)
        own, other, old = (self.directory / f"{name}.pem" for name in ("broker", "other", "old"))
        own.write_bytes(_pem(self.authority.issue_cert(HOST_NAME, "127.0.0.1")))
        other.write_bytes(_pem(self.authority.issue_cert("other.example")))
        old.write_bytes(_pem(self.authority.issue_cert(HOST_NAME, **expired())))
        tls = {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(own),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": self.ca_file,
            "listener.name.mtls.ssl.client.auth": "required",
            "listener.name.other_name.ssl.keystore.type": "PEM",
            "listener.name.other_name.ssl.keystore.location": str(other),
            "listener.name.expired.ssl.keystore.type": "PEM",
            "listener.name.expired.ssl.keystore.location": str(old),
        }
        acls = {
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS",
            "allow.everyone.if.no.acl.found": "true",
        }
        return tls | acls | _sasl() | _kerberos(self.realm)

    @property
    def jvm_options(self) -> tuple[str, ...]:
        """The brokers' Java's."""
        return (f"-Djava.security.krb5.conf={self.realm.krb5_conf}",)

    def scram_users(self) -> list[str]:
        """Users in the form that the formatting of a broker's storage takes."""
        return [
            f"{mechanism}=[name={name},password={password}]"
            for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512")
            for name, password in USERS.items()
            if "," not in password  # which that tool cannot take
        ]


def _sasl() -> dict[str, str]:
    known = " ".join(f"user_{name}={json.dumps(password)}" for name, password in USERS.items())
    entries = {
        "plain": f"{_MODULES}.plain.PlainLoginModule required {known};",
        "scram-sha-256": f"{_MODULES}.scram.ScramLoginModule required;",
        "scram-sha-512": f"{_MODULES}.scram.ScramLoginModule required;",
        "oauthbearer": f'{_MODULES}.oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="kafka";',
    }
    properties = {"sasl.enabled.mechanisms": ",".join(_MECHANISMS)}
    for listener in ("sasl_ssl", *_REAUTHENTICATING):
        for mechanism, entry in entries.items():
            # In a .properties file a backslash stands for itself only if there are two.
            properties[f"listener.name.{listener}.{mechanism}.sasl.jaas.config"] = entry.replace("\\", "\\\\")
    for listener, mechanism in product(_REAUTHENTICATING, entries):
        name = f"listener.name.{listener}.{mechanism}.connections.max.reauth.ms"
        properties[name] = str(int(REAUTH_SECONDS * 1000))
    return properties


def _kerberos(realm: Realm) -> dict[str, str]:
    login = (
        "com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true storeKey=true isInitiator=false"
        f' keyTab="{realm.service_keytab}" principal="{realm.principal(SERVICE)}";'
    )
    listener = "listener.name.kerberos"
    return {
        "sasl.kerberos.service.name": KERBEROS_SERVICE,
        f"{listener}.sasl.enabled.mechanisms": "GSSAPI",
        f"{listener}.gssapi.sasl.jaas.config": login,
        f"{listener}.gssapi.connections.max.reauth.ms": str(int(REAUTH_SECONDS * 1000)),
    }


def unsecured_token(subject: str, seconds: float = 600.0) -> str:
    """Return an unsigned token, valid for `seconds` from now; negative: expired."""
    now = time.time()
    header, claims = {"alg": "none"}, {"sub": subject, "iat": now - 3600, "exp": now + seconds}
    return ".".join([*(_base64(json.dumps(part)) for part in (header, claims)), ""])


def _base64(text: str) -> str:
    return base64.urlsafe_b64encode(text.encode()).rstrip(b"=").decode()
