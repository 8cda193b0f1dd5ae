"""The table of APIs: every served version can be decoded and answered, and every API can be refused."""

from typing import Any

import pytest
from kafka.protocol.metadata import ApiVersionsRequest

from sarameya.embedded.apis import HANDLERS, MESSAGES, SERVED_VERSIONS
from sarameya.error_codes import ErrorCode
from sarameya.protocol.versions import Api
from tests.embedded.api_kit import ApiKit, batch, request

EVERY_VERSION = [(api, version) for api, (low, high) in SERVED_VERSIONS.items() for version in range(low, high + 1)]

_ORDERS_ID = ApiKit({"orders": 1}).cluster.topics.topic("orders").id

FIELDS: dict[Api, dict[str, Any]] = {
    Api.PRODUCE: {
        "acks": -1,
        "timeout_ms": 1000,
        "topic_data": [
            {
                "name": "orders",
                "topic_id": _ORDERS_ID,
                "partition_data": [{"index": 0, "records": batch(b"v")}],
            }
        ],
    },
    Api.FETCH: {
        "max_wait_ms": 0,
        "min_bytes": 1,
        "max_bytes": 1000,
        "topics": [
            {
                "topic": "orders",
                "topic_id": _ORDERS_ID,
                "partitions": [{"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1000}],
            }
        ],
    },
    Api.LIST_OFFSETS: {
        "isolation_level": 0,
        "topics": [{"name": "orders", "partitions": [{"partition_index": 0, "timestamp": -1}]}],
    },
    Api.METADATA: {"topics": [{"name": "orders"}]},
    Api.OFFSET_COMMIT: {
        "group_id": "g",
        "member_id": "",
        "topics": [{"name": "orders", "partitions": [{"partition_index": 0, "committed_offset": 5}]}],
    },
    Api.OFFSET_FETCH: {
        "group_id": "g",
        "topics": [{"name": "orders", "partition_indexes": [0]}],
        "groups": [{"group_id": "g", "topics": [{"name": "orders", "partition_indexes": [0]}]}],
    },
    Api.FIND_COORDINATOR: {"key": "g", "key_type": 0, "coordinator_keys": ["g"]},
    Api.JOIN_GROUP: {
        "group_id": "g",
        "session_timeout_ms": 10_000,
        "rebalance_timeout_ms": 10_000,
        "member_id": "nobody",
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": b""}],
    },
    Api.HEARTBEAT: {"group_id": "g", "generation_id": 1, "member_id": "m"},
    Api.LEAVE_GROUP: {"group_id": "g", "member_id": "m", "members": [{"member_id": "m"}]},
    Api.SYNC_GROUP: {
        "group_id": "g",
        "generation_id": 1,
        "member_id": "m",
        "protocol_type": "consumer",
        "protocol_name": "range",
        "assignments": [],
    },
    Api.DESCRIBE_GROUPS: {"groups": ["g"]},
    Api.LIST_GROUPS: {"states_filter": []},
    Api.SASL_HANDSHAKE: {"mechanism": "PLAIN"},
    Api.SASL_AUTHENTICATE: {"auth_bytes": b""},
    Api.API_VERSIONS: {"client_software_name": "kit", "client_software_version": "1"},
    Api.CREATE_TOPICS: {
        "topics": [{"name": "new", "num_partitions": 1, "replication_factor": 1, "assignments": [], "configs": []}]
    },
    Api.DELETE_TOPICS: {"topic_names": ["orders"], "topics": [{"name": "orders"}], "timeout_ms": 1000},
    Api.INIT_PRODUCER_ID: {"transactional_id": None, "transaction_timeout_ms": 0},
    Api.OFFSET_FOR_LEADER_EPOCH: {"topics": [{"topic": "orders", "partitions": [{"partition": 0, "leader_epoch": 0}]}]},
    Api.DESCRIBE_CONFIGS: {"resources": [{"resource_type": 2, "resource_name": "orders", "configuration_keys": None}]},
    Api.CREATE_PARTITIONS: {"topics": [{"name": "orders", "count": 9, "assignments": None}], "timeout_ms": 1000},
    Api.DELETE_GROUPS: {"groups_names": ["g"]},
    Api.OFFSET_DELETE: {
        "group_id": "g",
        "topics": [{"name": "orders", "partitions": [{"partition_index": 0}]}],
    },
}


def codes(answer: Any) -> set[int]:
    """Return every error code in a response."""

    def walk(value: Any) -> Any:
        if isinstance(value, dict):
            for name, inner in value.items():
                if name == "error_code":
                    yield inner
                else:
                    yield from walk(inner)
        elif isinstance(value, list):
            for inner in value:
                yield from walk(inner)

    return set(walk(answer.to_dict()))


def test_apis_of_the_table_and_handlers_are_the_same() -> None:
    assert HANDLERS.keys() == SERVED_VERSIONS.keys()


@pytest.mark.parametrize(("api", "version"), EVERY_VERSION)
def test_every_served_version_is_decoded_and_answered(api: Api, version: int) -> None:
    kit = ApiKit({"orders": 1})
    answer = kit.answer(request(MESSAGES[api], version, **FIELDS[api]))
    allowed = {
        Api.JOIN_GROUP: {ErrorCode.UNKNOWN_MEMBER_ID},
        Api.HEARTBEAT: {ErrorCode.UNKNOWN_MEMBER_ID},
        Api.LEAVE_GROUP: {ErrorCode.UNKNOWN_MEMBER_ID},
        Api.SYNC_GROUP: {ErrorCode.UNKNOWN_MEMBER_ID},
        Api.DESCRIBE_GROUPS: {ErrorCode.GROUP_ID_NOT_FOUND},
        Api.DELETE_GROUPS: {ErrorCode.GROUP_ID_NOT_FOUND},
        Api.OFFSET_DELETE: {ErrorCode.GROUP_ID_NOT_FOUND},
        # The listener does not authenticate clients.
        Api.SASL_HANDSHAKE: {ErrorCode.ILLEGAL_SASL_STATE},
        Api.SASL_AUTHENTICATE: {ErrorCode.ILLEGAL_SASL_STATE},
    }.get(api, set())
    assert codes(answer) <= {ErrorCode.NONE} | allowed


@pytest.mark.parametrize(("api", "version"), EVERY_VERSION)
def test_every_served_version_can_be_refused(api: Api, version: int) -> None:
    kit = ApiKit({"orders": 1})
    (answer,) = kit.ask(request(MESSAGES[api], version, **FIELDS[api]), refusal=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    failed = codes(answer)
    if api is Api.FETCH:  # the code of the whole response is the session's (KIP-227)
        failed.discard(ErrorCode.NONE)
    assert failed == {ErrorCode.CLUSTER_AUTHORIZATION_FAILED}


def test_refused_request_has_no_effect() -> None:
    kit = ApiKit({"orders": 1})
    kit.ask(request(MESSAGES[Api.PRODUCE], 9, **FIELDS[Api.PRODUCE]), refusal=ErrorCode.NOT_ENOUGH_REPLICAS)
    assert kit.cluster.topics.partition("orders", 0).log.end_offset == 0


def test_api_versions_names_produce_from_v0_for_librdkafka() -> None:
    answer = ApiKit().answer(request(ApiVersionsRequest, 3, client_software_name="kit", client_software_version="1"))
    named = {key.api_key: (key.min_version, key.max_version) for key in answer.api_keys}
    assert named == {**SERVED_VERSIONS, Api.PRODUCE: (0, 13)}
