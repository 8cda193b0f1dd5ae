"""The trio shells around the wire: stream, connection, broker pool, metadata, coordinator. One concern a file."""

from sarameya._kafka_python import import_schemas

import_schemas("kafka.protocol.consumer", "kafka.protocol.metadata")
