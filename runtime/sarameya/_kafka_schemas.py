"""All schemas of kafka-python that Sarameya uses, imported without their warning.

The embedded broker imports this module, since it answers every request. The client's packages import only the schemas
that they use.
"""

from __future__ import annotations

from sarameya._kafka_python import import_schemas

import_schemas(
    "kafka.protocol.admin",
    "kafka.protocol.consumer",
    "kafka.protocol.metadata",
    "kafka.protocol.producer",
    "kafka.protocol.sasl",
)
