"""Errors in schemas, transforms and options, not in single records. A retry does not help."""

from __future__ import annotations

from sarameya_handlers.spark.errors import LandingError


class ShapeError(LandingError):
    """The records cannot be converted as requested: a schema, a transform or its SQL must be changed."""

    retriable = False
    permanent = True


class SchemaMismatchError(ShapeError):
    """Rows and table have different columns or types."""


class TooManyPartitionsError(ShapeError):
    """A batch has rows of too many of the table's partitions, and would write a file for each."""
