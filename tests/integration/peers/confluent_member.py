"""A group member with confluent-kafka's consumer (librdkafka); `lines` describes its output."""

import signal
import threading

from confluent_kafka import Consumer, KafkaException, TopicPartition

from tests.integration.peers.lines import MemberOptions, report, report_message


def main(options: MemberOptions) -> None:
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    consumer = Consumer(
        {
            "bootstrap.servers": options.bootstrap,
            "client.id": options.client_id,
            "group.id": options.group,
            "auto.offset.reset": "earliest",
            "auto.commit.interval.ms": 1000,
            "session.timeout.ms": options.session_timeout_ms,
            "heartbeat.interval.ms": options.heartbeat_interval_ms,
            "partition.assignment.strategy": options.strategy,
        }
    )

    def assigned(_: Consumer, partitions: list[TopicPartition]) -> None:
        report("assigned", (partition.partition for partition in partitions))

    def revoked(_: Consumer, partitions: list[TopicPartition]) -> None:
        report("revoked", (partition.partition for partition in partitions))

    consumer.subscribe([options.topic], on_assign=assigned, on_revoke=revoked)
    received = 0
    while not stop.is_set():
        message = consumer.poll(0.1)
        if message is None:
            continue
        error = message.error()
        if error is None:
            report_message(message.partition(), message.offset(), message.value())
            received += 1
            if received == options.limit:
                consumer.pause(consumer.assignment())
        elif not error.retriable():
            raise KafkaException(error)
    report("leaving")
    consumer.close()


if __name__ == "__main__":
    main(MemberOptions.begin())
