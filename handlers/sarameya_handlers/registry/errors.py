"""What may go wrong with a schema registry. An id that it does not know is no error here: it is the record's fault."""

from __future__ import annotations

from sarameya import SarameyaError


class RegistryError(SarameyaError):
    """The registry could not be asked, or its answer not understood: that passes, or somebody mends it.

    Records must wait for it; they are not to blame.
    """

    retriable = True


class UnknownSubjectError(RegistryError):
    """The registry has no such subject, or no such version of it: another has to be configured."""

    retriable = False
