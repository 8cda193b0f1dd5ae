"""Errors of a schema registry. An unknown schema id is not one of them: that record is bad."""

from __future__ import annotations

from sarameya import SarameyaError


class RegistryError(SarameyaError):
    """The registry did not respond, or its response cannot be understood.

    Records wait for the registry; they are not at fault.
    """

    retriable = True


class UnknownSubjectError(RegistryError):
    """The registry has no such subject, or no such version of it. The configuration has to change."""

    retriable = False
    permanent = True


class RegistryRefusedError(RegistryError):
    """The registry refuses our credentials. A person must change them, or a permission."""

    retriable = False
    permanent = True
