"""Apache Kafka itself, for tests: `with RealKafka(directory) as kafka: kafka.bootstrap_servers`.

`jars` collects the jars by Maven, once a version; `node` runs one broker process; `cluster` makes one or three of
them a cluster and offers topics and Kafka's own admin tools. Needs Java 17 and Maven.
"""

from tests.integration.real_kafka.cluster import GROUP_COMMAND, GroupLine, RealKafka, ToolError, run_tool
from tests.integration.real_kafka.jars import KAFKA_3_VERSION, KAFKA_VERSION, JarsError, kafka_jars
from tests.integration.real_kafka.node import KafkaStartError, Node

__all__ = [
    "GROUP_COMMAND",
    "KAFKA_3_VERSION",
    "KAFKA_VERSION",
    "GroupLine",
    "JarsError",
    "KafkaStartError",
    "Node",
    "RealKafka",
    "ToolError",
    "kafka_jars",
    "run_tool",
]
