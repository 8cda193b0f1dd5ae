"""DescribeConfigs: the settings that have an effect in this broker, under Kafka's names. No request can change them."""

from __future__ import annotations

from typing import Any

from kafka.protocol.admin import DescribeConfigsResponse

from sarameya.embedded.apis.call import Call
from sarameya.embedded.cluster_state import ClusterState
from sarameya.embedded.refusal import Refused
from sarameya.error_codes import ErrorCode

_Result = DescribeConfigsResponse.DescribeConfigsResult
_Config = _Result.DescribeConfigsResourceResult

_TOPIC, _BROKER = 2, 4
_STATIC_BROKER_CONFIG = 4

_RACK_AWARE = "org.apache.kafka.common.replica.RackAwareReplicaSelector"


def answer(call: Call) -> None:
    call.reply(DescribeConfigsResponse(results=[_describe(call, resource) for resource in call.body.resources]))


def refuse(body: Any, code: ErrorCode) -> Any:
    return DescribeConfigsResponse(results=[_refused(resource, code, code.name) for resource in body.resources])


def _describe(call: Call, resource: Any) -> Any:
    try:
        settings = _settings(call, resource.resource_type, resource.resource_name)
    except Refused as refused:
        return _refused(resource, refused.code, refused.why)
    wanted = resource.configuration_keys
    return _Result(
        error_code=ErrorCode.NONE,
        error_message=None,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
        configs=[
            _Config(
                name=name,
                value=value,
                read_only=True,
                config_source=_STATIC_BROKER_CONFIG,
                is_sensitive=False,
                synonyms=[],
                documentation=None,
            )
            for name, value in settings.items()
            if wanted is None or name in wanted
        ],
    )


def _settings(call: Call, resource_type: int, name: str) -> dict[str, str]:
    settings = call.cluster.settings
    if resource_type == _TOPIC:
        call.cluster.topics.topic(name)
        return {"max.message.bytes": str(settings.max_batch_size)}
    # The empty name means the defaults of all brokers.
    if resource_type == _BROKER and name in ("", *map(str, call.cluster.replica_ids)):
        return _broker_settings(call.cluster)
    raise Refused(ErrorCode.INVALID_REQUEST, f"{name!r} of resource type {resource_type} has no configuration here")


def _broker_settings(cluster: ClusterState) -> dict[str, str]:
    settings = cluster.settings
    return {
        "auto.create.topics.enable": str(settings.auto_create_topics).lower(),
        "default.replication.factor": str(cluster.default_replication_factor),
        "group.initial.rebalance.delay.ms": _ms(settings.groups.initial_rebalance_delay),
        "group.max.session.timeout.ms": _ms(settings.groups.max_session_timeout),
        "group.max.size": str(settings.groups.max_size),
        "group.min.session.timeout.ms": _ms(settings.groups.min_session_timeout),
        "max.incremental.fetch.session.cache.slots": str(settings.fetch_session_slots),
        "message.max.bytes": str(settings.max_batch_size),
        "num.partitions": str(settings.default_partitions),
        "offset.metadata.max.bytes": str(settings.groups.offset_metadata_max_size),
        "offsets.retention.check.interval.ms": _ms(settings.groups.offsets_retention_check_interval),
        "offsets.retention.minutes": _minutes(settings.groups.offsets_retention),
        "offsets.topic.num.partitions": str(settings.offsets_partitions),
        "replica.selector.class": _RACK_AWARE if settings.rack_aware_reads else "",
    }


def _ms(seconds: float) -> str:
    return str(int(min(seconds * 1000, 2**63 - 1)))


def _minutes(seconds: float) -> str:
    return str(int(min(seconds / 60, 2**31 - 1)))


def _refused(resource: Any, code: ErrorCode, why: str) -> Any:
    return _Result(
        error_code=code,
        error_message=why,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
        configs=[],
    )
