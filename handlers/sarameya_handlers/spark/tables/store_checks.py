"""Tables in object stores: trust in the store's puts."""

from __future__ import annotations

from sarameya import HandlerError
from sarameya_handlers.landing.stores.store import Store


def require_trust(name: str, store: Store) -> None:
    """Raise HandlerError unless it is known that the store refuses to replace an object, or the user says so."""
    if not store.is_trusted:
        raise HandlerError(
            f"{name}: exactly once depends on the object store's conditional puts, and this one's are not "
            "known here. Confirm them by store = { trusted = true }; docs/landing.md has a table of stores"
        )


def require_names_once(store: Store, directory: str) -> None:
    """Raise HandlerError if a name can be taken twice, by trying it. Raises OSError if the store fails."""
    if not store.gives_names_once(directory):
        raise HandlerError(
            f"a name in {store.place} can be taken twice, so records would not land exactly once: its "
            "file system, or its object store, does not refuse names that exist; choose another one"
        )
