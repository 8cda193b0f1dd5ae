"""confluent-kafka clients (librdkafka) as a program. It prints one line of JSON: offsets, or values and assignments.

produce BOOTSTRAP TOPIC COUNT CODEC          values v0 ... vN-1, as librdkafka partitions and batches them; idempotent
consume BOOTSTRAP TOPIC COUNT GROUP          one member of a group, until it has COUNT records
"""

import json
import sys

from confluent_kafka import Consumer, KafkaException, Producer


def produce(bootstrap: str, topic: str, count: str, codec: str) -> dict[str, object]:
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "compression.type": codec})
    offsets: list[tuple[int, int]] = []

    def delivered(error: object, message: object) -> None:
        if error is not None:
            raise KafkaException(error)
        offsets.append((message.partition(), message.offset()))

    for number in range(int(count)):
        producer.produce(topic, b"v%d" % number, key=b"k%d" % number, on_delivery=delivered)
        producer.poll(0)
    producer.flush()
    return {"offsets": offsets}


def consume(bootstrap: str, topic: str, count: str, group: str) -> dict[str, object]:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe([topic])
    values: list[str] = []
    while len(values) < int(count):
        for message in consumer.consume(500, timeout=0.5):
            if message.error() is not None:
                raise KafkaException(message.error())
            values.append(message.value().decode())
    consumer.commit(asynchronous=False)
    assignment = sorted(partition.partition for partition in consumer.assignment())
    consumer.close()
    return {"values": values, "assignments": [assignment]}


if __name__ == "__main__":
    run = {"produce": produce, "consume": consume}[sys.argv[1]]
    print(json.dumps(run(*sys.argv[2:])))
