"""Errors that stop a chain. Each message says what was found, what it means, and what to do."""

from __future__ import annotations

from sarameya import HandlerError, SarameyaError


class ChainError(SarameyaError):
    """The next link of a chain (see landing/__init__.py) would lose or repeat records.

    A retry finds the same: a person has to change the table, the group's offset, or the app file first.
    """

    permanent = True


class BrokenChainError(ChainError):
    """The table's links are no chain: one is missing, or does not start where the previous one ends."""


class RewoundTableError(ChainError):
    """The table holds less than was landed in it: it was restored, dropped, or recreated."""


class ForgottenChainError(ChainError):
    """The chain exists, but the table's history no longer contains its head: its retention is too short."""


class ForeignChainError(ChainError, HandlerError):
    """The table's links belong to another group, another sink, or an earlier topic of the same name."""


class MovedCommitError(ChainError):
    """The group's committed offset was moved, so that records would never land, or land twice."""


class LostRecordsError(ChainError):
    """Records were deleted before they landed, or the log was truncated below the chain's end."""


class UnansweredError(OSError):
    """The outcome of a put is unknown: the put may have succeeded, or may still succeed."""
