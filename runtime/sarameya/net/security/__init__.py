"""Security: TLS, SASL, and refused authentications."""

from sarameya._kafka_python import import_schemas

import_schemas("kafka.protocol.sasl")
