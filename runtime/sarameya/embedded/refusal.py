"""The exception with which the pure parts of the broker refuse a request."""

from __future__ import annotations

from sarameya.error_codes import ErrorCode
from sarameya.errors import KafkaError


class Refused(KafkaError):
    """A broker's refusal of a request.

    `code` is sent in the response, and `why` beside it if the response has a field for it. Callers in this process
    (`EmbeddedCluster.produce`) get the exception itself.
    """

    def __init__(self, code: ErrorCode, why: str) -> None:
        super().__init__(code, why)
        self.code: ErrorCode = code
        self.why = why
