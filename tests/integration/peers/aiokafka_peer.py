"""aiokafka clients as a program. It prints one line of JSON: offsets, or values and assignments.

produce BOOTSTRAP TOPIC COUNT CODEC idempotent|plain     values v0 ... vN-1, spread over the partitions
consume BOOTSTRAP TOPIC COUNT GROUP                      two members of one group, until they have COUNT records
"""

import asyncio
import json
import sys

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer


async def produce(bootstrap: str, topic: str, count: str, codec: str, mode: str) -> dict[str, object]:
    producer = AIOKafkaProducer(
        bootstrap_servers=bootstrap,
        compression_type=None if codec == "none" else codec,
        enable_idempotence=mode == "idempotent",
    )
    async with producer:
        partitions = sorted(await producer.partitions_for(topic))
        sent = [
            await producer.send(
                topic,
                b"v%d" % number,
                key=b"k%d" % number,
                partition=partitions[number % len(partitions)],
                headers=[("n", b"%d" % number)],
            )
            for number in range(int(count))
        ]
        done = await asyncio.gather(*sent)
    return {"offsets": [[record.partition, record.offset] for record in done]}


async def consume(bootstrap: str, topic: str, count: str, group: str) -> dict[str, object]:
    values: list[str] = []
    shares: dict[int, list[int]] = {}

    def done() -> bool:
        return len(shares) == 2 and len(values) >= int(count)

    async def member(number: int) -> None:
        consumer = AIOKafkaConsumer(
            topic,
            bootstrap_servers=bootstrap,
            group_id=group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            heartbeat_interval_ms=100,
        )
        async with consumer:
            while not done():
                batches = await consumer.getmany(timeout_ms=50)
                values.extend(record.value.decode() for batch in batches.values() for record in batch)
                if batches:
                    await consumer.commit()
                assigned = sorted(partition.partition for partition in consumer.assignment())
                if len(assigned) == 2:  # the other member has joined, and owns the rest
                    shares[number] = assigned

    await asyncio.gather(member(0), member(1))
    return {"values": values, "assignments": list(shares.values())}


if __name__ == "__main__":
    run = {"produce": produce, "consume": consume}[sys.argv[1]]
    print(json.dumps(asyncio.run(run(*sys.argv[2:]))))
