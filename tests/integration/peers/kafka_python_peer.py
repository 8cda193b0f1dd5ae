"""kafka-python clients as a program. It prints one line of JSON: offsets, or values and assignments.

produce BOOTSTRAP TOPIC COUNT CODEC          values v0 ... vN-1
consume BOOTSTRAP TOPIC COUNT GROUP          one member of a group, until it has COUNT records
"""

import json
import sys

from kafka import KafkaConsumer, KafkaProducer


def produce(bootstrap: str, topic: str, count: str, codec: str) -> dict[str, object]:
    producer = KafkaProducer(bootstrap_servers=bootstrap, compression_type=None if codec == "none" else codec)
    sent = [producer.send(topic, b"v%d" % number, key=b"k%d" % number) for number in range(int(count))]
    done = [future.get(timeout=20) for future in sent]
    producer.close()
    return {"offsets": [[record.partition, record.offset] for record in done]}


def consume(bootstrap: str, topic: str, count: str, group: str) -> dict[str, object]:
    consumer = KafkaConsumer(
        topic, bootstrap_servers=bootstrap, group_id=group, auto_offset_reset="earliest", enable_auto_commit=False
    )
    values: list[str] = []
    while len(values) < int(count):
        batches = consumer.poll(timeout_ms=500)
        values.extend(record.value.decode() for batch in batches.values() for record in batch)
    consumer.commit()
    assignment = sorted(partition.partition for partition in consumer.assignment())
    consumer.close()
    return {"values": values, "assignments": [assignment]}


if __name__ == "__main__":
    run = {"produce": produce, "consume": consume}[sys.argv[1]]
    print(json.dumps(run(*sys.argv[2:])))
