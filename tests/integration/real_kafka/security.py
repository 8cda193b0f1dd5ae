"""Authenticating listeners of a real Kafka, and the certificates of both sides.

| listener        | encryption | authentication of clients                                  |
|-----------------|------------|------------------------------------------------------------|
| SSL             | TLS        | none                                                       |
| MTLS            | TLS        | client certificate                                         |
| OTHER_NAME      | TLS        | none; the broker's certificate is for another host         |
| EXPIRED         | TLS        | none; the broker's certificate has expired                 |
| SASL_SSL        | TLS        | PLAIN, SCRAM, OAUTHBEARER (unsecured tokens)               |
| SASL_SSL_REAUTH | TLS        | the same, again every REAUTH_SECONDS                       |
| SASL_PLAIN      | none       | the same, again every REAUTH_SECONDS                       |
| KERBEROS        | none       | GSSAPI, again every REAUTH_SECONDS                         |
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
"""The security protocol of each listener."""
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
    """Return a validity that ended yesterday."""
    now = datetime.now(UTC)
    return Validity(not_before=now - timedelta(days=10), not_after=now - timedelta(days=1))


def _pem(certificate: trustme.LeafCert) -> bytes:
    """Return key and certificate chain in one PEM text, the key as PKCS#8, the only format that Java accepts."""
    key = load_pem_private_key(certificate.private_key_pem.bytes(), None)
    pkcs8 = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return pkcs8 + b"".join(pem.bytes() for pem in certificate.cert_chain_pems)


@attrs.define
class Security:
    """Certificates and properties of a cluster, with its files in `directory`."""

    directory: Path
    realm: Realm
    authority: trustme.CA = attrs.field(factory=trustme.CA)

    @property
    def ca_file(self) -> str:
        """The CA certificate that clients use to verify the brokers."""
        return str(self.directory / "ca.pem")

    def identity(self, name: str, authority: trustme.CA | None = None, **validity: Unpack[Validity]) -> str:
        """Create a client's certificate, issued by this authority or another; return the file with it and its key."""
        path = self.directory / f"{name}.pem"
        issued = (authority or self.authority).issue_cert(f"{name}.example", common_name=name, **validity)
        path.write_bytes(_pem(issued))
        return str(path)

    def properties(self) -> dict[str, str]:
        """Write the files of the brokers, and return their properties."""
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
        """The JVM options of the brokers."""
        return (f"-Djava.security.krb5.conf={self.realm.krb5_conf}",)

    def scram_users(self) -> list[str]:
        """Return the users in the syntax of `kafka-storage format --add-scram`."""
        return [
            f"{mechanism}=[name={name},password={password}]"
            for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512")
            for name, password in USERS.items()
            if "," not in password  # the tool cannot parse such a password
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
            # A .properties file needs two backslashes for one.
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
    """Return an unsigned token that is valid for `seconds` from now. A negative number gives an expired token."""
    now = time.time()
    header, claims = {"alg": "none"}, {"sub": subject, "iat": now - 3600, "exp": now + seconds}
    return ".".join([*(_base64(json.dumps(part)) for part in (header, claims)), ""])


def _base64(text: str) -> str:
    return base64.urlsafe_b64encode(text.encode()).rstrip(b"=").decode()
