"""Dependencies among the installed distributions, read from their metadata."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import requires

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name


def installed_tree(name: str, extras: set[str]) -> set[str]:
    """Return the canonical names of a distribution and of all its direct and indirect requirements, with `extras`."""
    seen: set[tuple[str, frozenset[str]]] = set()
    waiting = [(canonicalize_name(name), frozenset(extras))]
    while waiting:
        distribution = waiting.pop()
        if distribution not in seen:
            seen.add(distribution)
            waiting += requirements(*distribution)
    return {name for name, _ in seen}


def requirements(name: str, extras: frozenset[str]) -> Iterator[tuple[str, frozenset[str]]]:
    """Yield the direct requirements of a distribution."""
    for requirement in map(Requirement, requires(name) or ()):
        if requirement.marker is None or any(requirement.marker.evaluate({"extra": e}) for e in extras | {""}):
            yield canonicalize_name(requirement.name), frozenset(requirement.extras)
