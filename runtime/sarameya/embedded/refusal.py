"""How the broker's pure parts say no: an error code for the wire, and why, for whoever reads the answer."""

from __future__ import annotations

from sarameya.error_codes import ErrorCode
from sarameya.errors import KafkaError


class Refused(KafkaError):
    """The broker does not do what was asked. `code` travels in the answer, `why` beside it where there is room.

    Who calls the broker in the process (`EmbeddedCluster.produce`) gets it raised.
    """

    def __init__(self, code: ErrorCode, why: str) -> None:
        super().__init__(code, why)
        self.code: ErrorCode = code
        self.why = why
