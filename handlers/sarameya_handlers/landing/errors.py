"""What stops a chain: each says what was found, what it means, and what to do about it."""

from __future__ import annotations

from sarameya import HandlerError, SarameyaError


class ChainError(SarameyaError):
    """A partition cannot be landed in this table any further without losing or repeating records.

    A person has to mend the table, the group's offset or the app file first: a retry finds the same.
    """

    permanent = True


class BrokenChainError(ChainError):
    """What the table holds is no chain: a link is missing, or does not begin where the one before it ends."""


class RewoundTableError(ChainError):
    """The table holds less than has been landed in it: it was restored, dropped or made anew."""


class ForgottenChainError(ChainError):
    """The chain has begun, but the table has forgotten where it ends (what it keeps of its history is too short)."""


class ForeignChainError(ChainError, HandlerError):
    """The table's links are another group's, another sink's, or those of a topic that has been made anew."""


class MovedCommitError(ChainError):
    """The group's commit was moved beyond what has landed: what lies between would never land."""


class LostRecordsError(ChainError):
    """Records that have not landed are gone from the log (retention), or the log was cut below what has landed."""
