"""ApiVersions: the APIs that this broker serves, and their versions (KIP-35)."""

from __future__ import annotations

from typing import Any

from kafka.protocol.metadata import ApiVersionsResponse

from sarameya.embedded.apis.call import Call
from sarameya.embedded.apis.versions import NAMED_VERSIONS
from sarameya.error_codes import ErrorCode


def answer(call: Call) -> None:
    # A request of an unknown version is answered as well, so that the client can choose another (KIP-511).
    call.reply(_response(ErrorCode.NONE if call.body is not None else ErrorCode.UNSUPPORTED_VERSION))


def refuse(body: Any, code: ErrorCode) -> Any:
    return _response(code)


def _response(code: ErrorCode) -> Any:
    return ApiVersionsResponse(
        error_code=code,
        api_keys=[
            ApiVersionsResponse.ApiVersion(api_key=api, min_version=low, max_version=high)
            for api, (low, high) in sorted(NAMED_VERSIONS.items())
        ],
    )
