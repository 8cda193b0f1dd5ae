"""The APIs that the broker answers: one small pure module each, and the table from an API to its module.

Each module has two functions. `answer(call)` calls `call.reply` once, now or later. `refuse(body, code)` returns a
response with one error code in every place that the API has for it. `fetch.refuse(call, code)` replies itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import attrs
from kafka.protocol.admin import (
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DeleteGroupsRequest,
    DeleteTopicsRequest,
    DescribeConfigsRequest,
    DescribeGroupsRequest,
    ListGroupsRequest,
)
from kafka.protocol.consumer import (
    FetchRequest,
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    ListOffsetsRequest,
    OffsetCommitRequest,
    OffsetDeleteRequest,
    OffsetFetchRequest,
    OffsetForLeaderEpochRequest,
    SyncGroupRequest,
)
from kafka.protocol.metadata import ApiVersionsRequest, FindCoordinatorRequest, MetadataRequest
from kafka.protocol.producer import InitProducerIdRequest, ProduceRequest
from kafka.protocol.sasl import SaslAuthenticateRequest, SaslHandshakeRequest

from sarameya.embedded.apis import (
    api_versions,
    create_partitions,
    create_topics,
    delete_groups,
    delete_topics,
    describe_configs,
    describe_groups,
    fetch,
    find_coordinator,
    heartbeat,
    init_producer_id,
    join_group,
    leader_epochs,
    leave_group,
    list_groups,
    list_offsets,
    metadata,
    offset_commit,
    offset_delete,
    offset_fetch,
    produce,
    sasl_authenticate,
    sasl_handshake,
    sync_group,
)
from sarameya.embedded.apis.call import Call
from sarameya.embedded.apis.versions import SERVED_VERSIONS
from sarameya.error_codes import ErrorCode
from sarameya.protocol.versions import Api

__all__ = ["HANDLERS", "MESSAGES", "SERVED_VERSIONS", "ApiHandler", "Call", "dispatch"]


@attrs.frozen(slots=True)
class ApiHandler:
    """The request class of an API, and the two functions of its module."""

    message: Any
    """kafka-python's request class."""
    answer: Callable[[Call], None]
    refuse: Callable[[Any, ErrorCode], Any] | None
    refuse_call: Callable[[Call, ErrorCode], None] | None = None
    """Replaces `refuse` if the response depends on more than the request, such as a fetch session."""


HANDLERS: Mapping[Api, ApiHandler] = {
    Api.PRODUCE: ApiHandler(ProduceRequest, produce.answer, produce.refuse),
    Api.FETCH: ApiHandler(FetchRequest, fetch.answer, None, refuse_call=fetch.refuse),
    Api.LIST_OFFSETS: ApiHandler(ListOffsetsRequest, list_offsets.answer, list_offsets.refuse),
    Api.METADATA: ApiHandler(MetadataRequest, metadata.answer, metadata.refuse),
    Api.OFFSET_COMMIT: ApiHandler(OffsetCommitRequest, offset_commit.answer, offset_commit.refuse),
    Api.OFFSET_FETCH: ApiHandler(OffsetFetchRequest, offset_fetch.answer, offset_fetch.refuse),
    Api.FIND_COORDINATOR: ApiHandler(FindCoordinatorRequest, find_coordinator.answer, find_coordinator.refuse),
    Api.JOIN_GROUP: ApiHandler(JoinGroupRequest, join_group.answer, join_group.refuse),
    Api.HEARTBEAT: ApiHandler(HeartbeatRequest, heartbeat.answer, heartbeat.refuse),
    Api.LEAVE_GROUP: ApiHandler(LeaveGroupRequest, leave_group.answer, leave_group.refuse),
    Api.SYNC_GROUP: ApiHandler(SyncGroupRequest, sync_group.answer, sync_group.refuse),
    Api.DESCRIBE_GROUPS: ApiHandler(DescribeGroupsRequest, describe_groups.answer, describe_groups.refuse),
    Api.LIST_GROUPS: ApiHandler(ListGroupsRequest, list_groups.answer, list_groups.refuse),
    Api.API_VERSIONS: ApiHandler(ApiVersionsRequest, api_versions.answer, api_versions.refuse),
    Api.SASL_HANDSHAKE: ApiHandler(SaslHandshakeRequest, sasl_handshake.answer, sasl_handshake.refuse),
    Api.SASL_AUTHENTICATE: ApiHandler(SaslAuthenticateRequest, sasl_authenticate.answer, sasl_authenticate.refuse),
    Api.CREATE_TOPICS: ApiHandler(CreateTopicsRequest, create_topics.answer, create_topics.refuse),
    Api.DELETE_TOPICS: ApiHandler(DeleteTopicsRequest, delete_topics.answer, delete_topics.refuse),
    Api.INIT_PRODUCER_ID: ApiHandler(InitProducerIdRequest, init_producer_id.answer, init_producer_id.refuse),
    Api.OFFSET_FOR_LEADER_EPOCH: ApiHandler(OffsetForLeaderEpochRequest, leader_epochs.answer, leader_epochs.refuse),
    Api.DESCRIBE_CONFIGS: ApiHandler(DescribeConfigsRequest, describe_configs.answer, describe_configs.refuse),
    Api.CREATE_PARTITIONS: ApiHandler(CreatePartitionsRequest, create_partitions.answer, create_partitions.refuse),
    Api.DELETE_GROUPS: ApiHandler(DeleteGroupsRequest, delete_groups.answer, delete_groups.refuse),
    Api.OFFSET_DELETE: ApiHandler(OffsetDeleteRequest, offset_delete.answer, offset_delete.refuse),
}

MESSAGES: Mapping[Api, Any] = {api: handler.message for api, handler in HANDLERS.items()}


def dispatch(call: Call, refusal: ErrorCode | None = None) -> None:
    """Answer one request, or refuse it with `refusal`; then complete the fetches that waited for its changes."""
    handler = HANDLERS[call.request.api]
    if refusal is None:
        handler.answer(call)
    elif handler.refuse is not None:
        call.reply(handler.refuse(call.body, refusal))
    else:
        assert handler.refuse_call is not None
        handler.refuse_call(call, refusal)
    call.cluster.complete_fetches(call.now)
