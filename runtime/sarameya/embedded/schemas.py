"""Schemas of kafka-python for all requests that the broker answers, imported without their warning."""

from __future__ import annotations

from sarameya._kafka_python import import_schemas

import_schemas(
    "kafka.protocol.admin",
    "kafka.protocol.consumer",
    "kafka.protocol.metadata",
    "kafka.protocol.producer",
    "kafka.protocol.sasl",
)
