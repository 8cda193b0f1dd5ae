"""A Kerberos realm for a real Kafka: MIT's key distribution center, by k5test.

Owns the realm's process and files; which listeners take tickets is `security`'s.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    from k5test import K5Realm

HOST_NAME = "localhost"
KERBEROS_SERVICE = "kafka"
SERVICE = f"{KERBEROS_SERVICE}/{HOST_NAME}"
"""The brokers'."""
_KRB5_CONF = {
    # A host is called what it was connected to by: there is no DNS here to ask for another name.
    "libdefaults": {"dns_canonicalize_hostname": "false", "rdns": "false"},
    "realms": {"$realm": {"kdc": "127.0.0.1:$port0", "admin_server": "127.0.0.1:$port1"}},
}
_KDC_CONF = {
    "realms": {
        "$realm": {
            "kdc_ports": None,
            "kdc_tcp_ports": None,
            "kdc_listen": "127.0.0.1:$port0",
            "kdc_tcp_listen": "127.0.0.1:$port0",
        }
    }
}


@attrs.frozen
class Realm:
    """A realm that runs. Keytabs are made where they are asked for."""

    _realm: K5Realm
    directory: Path

    @property
    def krb5_conf(self) -> str:
        """The file by which others find it."""
        return str(self._realm.env["KRB5_CONFIG"])

    @property
    def service_keytab(self) -> str:
        """The brokers'."""
        return self.keytab(SERVICE)

    def principal(self, name: str) -> str:
        return f"{name}@{self._realm.realm}"

    def keytab(self, name: str) -> str:
        """A file with the key of a principal, which is made if there is none."""
        path = self.directory / f"{name.replace('/', '-')}.keytab"
        if not path.exists():
            self._realm.addprinc(self.principal(name))
            self._realm.extract_keytab(self.principal(name), str(path))
        return str(path)


@contextmanager
def running(directory: Path, port: int) -> Iterator[Realm]:
    """A realm whose server listens on this port and those behind it."""
    from k5test import K5Realm  # which benches, who start Kafka too, need not have

    realm = K5Realm(
        krb5_conf=_KRB5_CONF, kdc_conf=_KDC_CONF, portbase=port, create_user=False, create_host=False, get_creds=False
    )
    directory.mkdir(parents=True, exist_ok=True)
    try:
        yield Realm(realm, directory)
    finally:
        realm.stop()
