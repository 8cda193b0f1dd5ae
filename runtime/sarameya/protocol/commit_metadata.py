"""Validation of commit metadata before it is sent. Pure."""

from __future__ import annotations

import attrs

from sarameya.error_codes import ErrorCode

LONGEST = 32767
"""Maximal bytes of a string in a request. Brokers accept less (`offset.metadata.max.bytes`, 4,096 by default)."""


@attrs.frozen(slots=True)
class MetadataFault:
    """Reason to refuse metadata: the error code that a broker would return, and advice for the user."""

    code: ErrorCode
    advice: str


def metadata_fault(metadata: object) -> MetadataFault | None:
    """Return the reason why the metadata cannot be sent, or None if it can."""
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
