"""InitProducerId: an id for an idempotent producer (KIP-98). Transactions are not served."""

from __future__ import annotations

from typing import Any

from kafka.protocol.producer import InitProducerIdResponse

from sarameya.embedded.apis.call import Call
from sarameya.error_codes import ErrorCode


def answer(call: Call) -> None:
    if call.body.transactional_id is not None:
        call.reply(refuse(call.body, ErrorCode.INVALID_REQUEST))
        return
    # As in Kafka, a producer without a transactional id gets a new one whatever id it had (KIP-360).
    call.reply(
        InitProducerIdResponse(error_code=ErrorCode.NONE, producer_id=call.cluster.next_producer_id(), producer_epoch=0)
    )


def refuse(body: Any, code: ErrorCode) -> Any:
    return InitProducerIdResponse(error_code=code, producer_id=-1, producer_epoch=-1)
