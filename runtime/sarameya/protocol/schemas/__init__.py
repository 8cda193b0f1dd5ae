"""Kafka's messages that kafka-python has no schema of; the schemas stand beside this file, in Kafka's own notation.

`ConsumerGroupDescribe` describes a group of the broker-led protocol (KIP-848), which `DescribeGroups` does not know.
"""

from __future__ import annotations

from kafka.protocol.api_message import ApiMessage

from sarameya._kafka_python import schemas_are_read

with schemas_are_read():

    class ConsumerGroupDescribeRequest(ApiMessage, load_json=__name__):  # type: ignore[misc, call-arg]
        """Asks the coordinator of some groups for what it knows of them."""

    class ConsumerGroupDescribeResponse(ApiMessage, load_json=__name__):  # type: ignore[misc, call-arg]
        """Each group's state, and its members with their assignments; GROUP_ID_NOT_FOUND for a classic group."""


__all__ = ["ConsumerGroupDescribeRequest", "ConsumerGroupDescribeResponse"]
