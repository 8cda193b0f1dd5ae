"""Type variables of messages, records, handlers and producers: values first, since few programs give keys a type.

Left out, a type is that of Kafka's own keys and values: bytes, or None.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    V = TypeVar("V", default=bytes | None)
    K = TypeVar("K", default=bytes | None)
    V_co = TypeVar("V_co", covariant=True, default=bytes | None)
    K_co = TypeVar("K_co", covariant=True, default=bytes | None)
else:
    from typing import TypeVar

    # Before Python 3.13 type variables have no defaults at run time. So classes with these replace
    # `__class_getitem__`, which would require a type for each.
    V, K = TypeVar("V"), TypeVar("K")
    V_co, K_co = TypeVar("V_co", covariant=True), TypeVar("K_co", covariant=True)
