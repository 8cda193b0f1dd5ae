"""Answers that are to fail on purpose. Pure; asked once for every request."""

from __future__ import annotations

from collections import deque

from sarameya.error_codes import ErrorCode
from sarameya.protocol.versions import Api


class Faults:
    """A queue of error codes an API: each fails one request, in the order they were put in."""

    def __init__(self) -> None:
        self._codes: dict[Api, deque[ErrorCode]] = {}

    def fail_next(self, api: Api, code: ErrorCode, count: int = 1) -> None:
        """The next `count` requests of `api` that no earlier call has claimed are answered with `code`."""
        self._codes.setdefault(api, deque()).extend([code] * count)

    def take(self, api: Api) -> ErrorCode | None:
        """The code this request of `api` is to fail with; None if it is not to fail."""
        codes = self._codes.get(api)
        return codes.popleft() if codes else None
