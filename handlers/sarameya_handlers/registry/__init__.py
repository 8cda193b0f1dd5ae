"""A schema registry that speaks Confluent's REST interface, as far as reading needs it. Blocking; for worker threads.

schemas.py   what a registry tells of a schema (pure)
options.py   where it is, and who we are to it
http.py      one GET, bounded in time and size
client.py    schemas by their ids, and by subject and version, remembered
errors.py    what may go wrong; most of it passes

No more than GET is needed, so the standard library's HTTP is enough: no client of its own, no dependency.
"""

from sarameya_handlers.registry.client import Registry
from sarameya_handlers.registry.errors import RegistryError, UnknownSubjectError
from sarameya_handlers.registry.options import RegistryOptions
from sarameya_handlers.registry.schemas import Reference, Schema, SchemaKind

__all__ = [
    "Reference",
    "Registry",
    "RegistryError",
    "RegistryOptions",
    "Schema",
    "SchemaKind",
    "UnknownSubjectError",
]
