"""How the broker's pure parts say no: an error code for the wire, and why, for whoever reads the answer."""

from __future__ import annotations

from sarameya.error_codes import ErrorCode


class Refused(Exception):  # noqa: N818 - reads as what happened: `raise Refused(code, why)`
    """A request, or one partition's part of it, is answered with `code`. Never leaves the broker as an exception."""

    def __init__(self, code: ErrorCode, why: str) -> None:
        super().__init__(f"{why} ({code.name})")
        self.code = code
        self.why = why
