"""Admin clients for groups and topics."""

from sarameya._kafka_python import import_schemas

import_schemas("kafka.protocol.admin")
