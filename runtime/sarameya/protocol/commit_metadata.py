"""Metadata of commits: whether a request can carry it. Pure."""

from __future__ import annotations

import attrs

from sarameya.error_codes import ErrorCode

LONGEST = 32767
"""Bytes of the longest text in a request; brokers take less (`offset.metadata.max.bytes`, 4,096 unless set)."""


@attrs.frozen(slots=True)
class MetadataFault:
    """The code that a broker would answer with, and what to change."""

    code: ErrorCode
    advice: str


def metadata_fault(metadata: object) -> MetadataFault | None:
    """Return why no request can carry the metadata; None where one can."""
    if metadata is None:
        return None
    if not isinstance(metadata, str):
        return MetadataFault(ErrorCode.INVALID_REQUEST, f"its metadata must be text, and is {metadata!r:.100}")
    try:
        length = len(metadata.encode())
    except UnicodeEncodeError as error:
        shown = ascii(metadata[error.start])
        advice = f"its metadata must be text that UTF-8 can encode, and has {shown} at index {error.start}"
        return MetadataFault(ErrorCode.INVALID_REQUEST, advice)
    if length > LONGEST:
        advice = f"its metadata has {length:,} bytes; shorten it (the broker's offset.metadata.max.bytes)"
        return MetadataFault(ErrorCode.OFFSET_METADATA_TOO_LARGE, advice)
    return None
