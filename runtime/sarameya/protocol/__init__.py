"""The pure half of the client: state machines and byte formats.

No trio, no sockets and no clock: the current time (`now`) is an argument.

    membership/     membership in a group: a state machine      offset_ledger   marked and committed offsets
    assignors/      division of partitions among members        rebalance       subscriptions, assignments
    cluster/        metadata, described groups and topics       fetch/          positions, sessions, byte budget
    records/        record batches to messages and columns      wire/           frames, requests, responses
    sasl/           authentication                              versions        negotiation of API versions
"""

from sarameya._kafka_python import import_schemas

import_schemas("kafka.protocol.consumer", "kafka.coordinator.assignors.sticky.user_data")
