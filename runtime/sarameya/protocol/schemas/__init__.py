"""Kafka's messages that kafka-python has no schema for. The schemas are files in this folder, in Kafka's JSON format.

`ConsumerGroupDescribe` describes groups of the broker-led protocol (KIP-848), which `DescribeGroups` does not cover.
"""

from __future__ import annotations

from kafka.protocol.api_message import ApiMessage

from sarameya._kafka_python import schema_warnings_ignored

with schema_warnings_ignored():

    class ConsumerGroupDescribeRequest(ApiMessage, load_json=__name__):  # type: ignore[misc, call-arg]
        """Request for the descriptions of some groups, sent to their coordinator."""

    class ConsumerGroupDescribeResponse(ApiMessage, load_json=__name__):  # type: ignore[misc, call-arg]
        """State of each group, its members and their assignments; GROUP_ID_NOT_FOUND for a classic group."""


__all__ = ["ConsumerGroupDescribeRequest", "ConsumerGroupDescribeResponse"]
