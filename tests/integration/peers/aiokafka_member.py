"""A group member that uses aiokafka. `lines` describes its output."""

import asyncio
import signal

from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener, TopicPartition
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor

from tests.integration.peers.lines import MemberOptions, report, report_message

ASSIGNORS = {
    assignor.name: assignor
    for assignor in (RangePartitionAssignor, RoundRobinPartitionAssignor, StickyPartitionAssignor)
}


class Listener(ConsumerRebalanceListener):
    async def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None:
        report("assigned", (partition.partition for partition in assigned))

    async def on_partitions_revoked(self, revoked: set[TopicPartition]) -> None:
        report("revoked", (partition.partition for partition in revoked))


async def main(options: MemberOptions) -> None:
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    consumer = AIOKafkaConsumer(
        bootstrap_servers=options.bootstrap,
        client_id=options.client_id,
        group_id=options.group,
        auto_offset_reset="earliest",
        auto_commit_interval_ms=1000,
        session_timeout_ms=options.session_timeout_ms,
        heartbeat_interval_ms=options.heartbeat_interval_ms,
        partition_assignment_strategy=[ASSIGNORS[options.strategy]],
    )
    consumer.subscribe([options.topic], listener=Listener())
    async with consumer:
        while not stop.is_set():
            for records in (await consumer.getmany(timeout_ms=100)).values():
                for record in records:
                    report_message(record.partition, record.offset, record.value)
        report("leaving")


if __name__ == "__main__":
    asyncio.run(main(MemberOptions.begin()))
