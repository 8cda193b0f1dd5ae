"""A client of schema registries with Confluent's REST interface, read-only. Blocking; for worker threads.

schemas.py   a registered schema (pure)
options.py   the registry's address and credentials
http.py      one GET, bounded in time and size
client.py    schemas by id, and by subject and version, cached
errors.py    errors of a registry; most are passing

Only GET is needed, so the standard library's HTTP client is enough.
"""

from sarameya_handlers.registry.client import Registry
from sarameya_handlers.registry.errors import RegistryError, RegistryRefusedError, UnknownSubjectError
from sarameya_handlers.registry.options import RegistryOptions
from sarameya_handlers.registry.schemas import Reference, Schema, SchemaKind

__all__ = [
    "Reference",
    "Registry",
    "RegistryError",
    "RegistryOptions",
    "RegistryRefusedError",
    "Schema",
    "SchemaKind",
    "UnknownSubjectError",
]
