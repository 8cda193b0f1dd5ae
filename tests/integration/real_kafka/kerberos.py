"""A Kerberos realm for a real Kafka: MIT's key distribution center, by k5test.

It owns the realm's process and files. `security` defines which listeners accept tickets.
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
"""The service principal of the brokers."""
_KRB5_CONF = {
    # Use host names as they are: no DNS is here to look up another name.
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
    """A running realm. It creates keytabs on demand."""

    _realm: K5Realm
    directory: Path

    @property
    def krb5_conf(self) -> str:
        """The file by which clients and brokers find the realm."""
        return str(self._realm.env["KRB5_CONFIG"])

    @property
    def service_keytab(self) -> str:
        """The keytab of the brokers."""
        return self.keytab(SERVICE)

    def principal(self, name: str) -> str:
        return f"{name}@{self._realm.realm}"

    def keytab(self, name: str) -> str:
        """Return a file with the key of a principal; create both if they do not exist."""
        path = self.directory / f"{name.replace('/', '-')}.keytab"
        if not path.exists():
            self._realm.addprinc(self.principal(name))
            self._realm.extract_keytab(self.principal(name), str(path))
        return str(path)


@contextmanager
def running(directory: Path, port: int) -> Iterator[Realm]:
    """Run a realm whose server listens on `port` and the ports after it."""
    from k5test import K5Realm  # benches start Kafka too, and do not need k5test

    realm = K5Realm(
        krb5_conf=_KRB5_CONF, kdc_conf=_KDC_CONF, portbase=port, create_user=False, create_host=False, get_creds=False
    )
    directory.mkdir(parents=True, exist_ok=True)
    try:
        yield Realm(realm, directory)
    finally:
        realm.stop()
