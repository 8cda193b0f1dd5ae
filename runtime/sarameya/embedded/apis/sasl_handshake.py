"""SaslHandshake on a broker without SASL: refused. With SASL, `sasl.authenticator` answers it."""

from __future__ import annotations

from typing import Any

from kafka.protocol.sasl import SaslHandshakeResponse

from sarameya.embedded.apis.call import Call
from sarameya.error_codes import ErrorCode


def answer(call: Call) -> None:
    call.reply(refuse(call.body, ErrorCode.ILLEGAL_SASL_STATE))


def refuse(body: Any, code: ErrorCode) -> Any:
    return SaslHandshakeResponse(error_code=code, mechanisms=[])
