"""What is wrong with how records are shaped, rather than with one of them: trying again does not help."""

from __future__ import annotations

from sarameya_handlers.spark.errors import LandingError


class ShapeError(LandingError):
    """What was asked for cannot be made of these records: a schema, a transform or its SQL has to be changed."""

    retriable = False


class SchemaMismatchError(ShapeError):
    """Rows and table have different columns, or types."""


class TooManyPartitionsError(ShapeError):
    """A landing would touch more of the table's partitions than it may: it would be a file for each few records."""
