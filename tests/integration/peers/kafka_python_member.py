"""A group member with kafka-python's consumer; `lines` describes its output."""

import logging
import signal
import threading

from kafka import ConsumerRebalanceListener, KafkaConsumer, TopicPartition
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor

from tests.integration.peers.lines import MemberOptions, report, report_message

ASSIGNORS = {
    assignor.name: assignor
    for assignor in (
        RangePartitionAssignor,
        RoundRobinPartitionAssignor,
        StickyPartitionAssignor,
        CooperativeStickyAssignor,
    )
}

POLL_MS = 5_000
"""Timeout of `poll`, longer than a rebalance takes.

If a `poll` of kafka-python 3.0.12 times out during a join, later ones sometimes miss the response: the coordinator
counts the member in the group, and the member does not.
"""


class Listener(ConsumerRebalanceListener):
    def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None:
        report("assigned", (partition.partition for partition in assigned))

    def on_partitions_revoked(self, revoked: set[TopicPartition]) -> None:
        report("revoked", (partition.partition for partition in revoked))


def main(options: MemberOptions) -> None:
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    consumer = KafkaConsumer(
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
    while not stop.is_set():
        for records in consumer.poll(POLL_MS).values():
            for record in records:
                report_message(record.partition, record.offset, record.value)
    report("leaving")
    consumer.close()


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(message)s")
    main(MemberOptions.begin())
