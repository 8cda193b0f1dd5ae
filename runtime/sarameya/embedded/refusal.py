"""The exception that the pure parts of the broker raise to refuse a request."""

from __future__ import annotations

from sarameya.error_codes import ErrorCode
from sarameya.errors import KafkaError


class Refused(KafkaError):
    """A broker's refusal of a request.

    The response contains `code`, and also `why` if it has a field for a message. A method that is called directly, such
    as `EmbeddedCluster.produce`, raises the exception.
    """

    def __init__(self, code: ErrorCode, why: str) -> None:
        super().__init__(code, why)
        self.code: ErrorCode = code
        self.why = why
