"""Unclean elections of Apache Kafka: the new leader's log ends before the position of a reader (KIP-320).

One broker is frozen, and with it its replica, while the leader acknowledges further records. Then the leader is killed;
the first broker continues and becomes the leader. The further records are lost, and other records get their offsets.
"""

from __future__ import annotations

import time

import pytest
import trio

from sarameya import Claim, Config, Consumer, Event, LogTruncatedError, TopicPartition
from sarameya.observe import LeaderChanged, OffsetReset
from tests.integration.real_kafka import RealKafka
from tests.integration.real_kafka.producing import send
from tests.integration.real_kafka.replicas import await_in_sync, await_leader, controller, group_coordinated_by

pytestmark = pytest.mark.integration

KEPT, LOST, NEW = range(20), range(20, 30), range(20, 60)
"""Offsets of records that both brokers had, that only the killed leader had, and that came afterwards."""
DEADLINE = 60.0


def produce(kafka: RealKafka, topic: str, text: str, count: int) -> None:
    """Produce `count` records to each partition, acknowledged by the leader alone."""
    records = [{"value": b"%s %d" % (text.encode(), n), "partition": number} for n in range(count) for number in (0, 1)]
    send(kafka, topic, records, acks=1)


async def read(claim: Claim, count: int, consumer: Consumer | None = None) -> list[tuple[int, bytes]]:
    """Return offsets and values of the next messages. Mark them if a consumer is given."""
    messages = [await anext(aiter(claim)) for _ in range(count)]
    for message in messages if consumer is not None else ():
        consumer.mark_message(message)
    return [(message.offset, message.value or b"") for message in messages]


def numbered(text: str, offsets: range) -> list[tuple[int, bytes]]:
    return [(offset, b"%s %d" % (text.encode(), n)) for n, offset in enumerate(offsets)]


async def test_records_lost_by_an_unclean_election_are_reported(
    real_kafka_of_three: RealKafka,
) -> None:
    kafka = real_kafka_of_three
    third = controller(kafka)
    first, second = (node for node in kafka.nodes if node is not third)
    one, two, three = (node.node_id for node in (first, second, third))
    topic = kafka.create_topic(
        "truncated", replicas=[[one, two], [three, two]], unclean_leader_election_enable="true", min_insync_replicas=1
    )
    cut, whole = TopicPartition(topic, 0), TopicPartition(topic, 1)
    produce(kafka, topic, "kept", len(KEPT))
    await_in_sync(kafka, topic, 0, [one, two])
    group = group_coordinated_by(kafka, three, "truncated")
    events: list[Event] = []
    continuing = Config(offset_out_of_range="newest")

    with trio.fail_after(DEADLINE):
        async with (
            Consumer(kafka.bootstrap_servers, group_id=group) as failing,
            Consumer(kafka.bootstrap_servers, continuing, observers=[events.append]) as following,
            failing.consume_partitions([cut, whole], "oldest") as fails,
            following.consume_partitions([cut, whole], "oldest") as follows,
        ):
            for partition in (cut, whole):  # both brokers have these records
                assert await read(fails[partition], len(KEPT), failing) == numbered("kept", KEPT)
                assert await read(follows[partition], len(KEPT)) == numbered("kept", KEPT)
            second.freeze()
            await trio.to_thread.run_sync(await_in_sync, kafka, topic, 0, [one])
            await trio.to_thread.run_sync(produce, kafka, topic, "lost", len(LOST))
            for partition in (cut, whole):
                assert await read(fails[partition], len(LOST), failing) == numbered("lost", LOST)
                assert await read(follows[partition], len(LOST)) == numbered("lost", LOST)
            await failing.commit()

            first.kill()
            second.thaw()
            await trio.to_thread.run_sync(await_leader, kafka, topic, 0, two)
            elected = time.time()
            # Enough records that the log reaches the position again, with other records.
            await trio.to_thread.run_sync(produce, kafka, topic, "new", len(NEW))

            with pytest.raises(LogTruncatedError) as failed:
                await read(fails[cut], 1)
            assert (failed.value.partition, failed.value.offset, failed.value.diverging_offset) == (cut, 30, 20)
            assert await read(follows[cut], len(NEW)) == numbered("new", NEW)
            print(f"reported the truncation and read on {time.time() - elected:.1f} s after the election")
            [reset] = [event for event in events if isinstance(event, OffsetReset)]
            assert (reset.partition, reset.before, reset.after) == (cut, 30, 20)
            assert 20 <= reset.log_end <= 60, "detected before the new records were written, or after"
            for claims in (fails, follows):
                assert await read(claims[whole], len(NEW)) == numbered("new", range(30, 70))
            assert {event.partition for event in events if isinstance(event, LeaderChanged)} == {cut}

        for policy, config in {"fail": Config(), "newest": continuing}.items():
            async with Consumer(kafka.bootstrap_servers, config, group_id=group) as later:
                async with later.consume_partition(topic, 0) as claim:
                    assert claim.initial_offset == LOST.stop
                    if policy == "fail":
                        with pytest.raises(LogTruncatedError, match="read from offset 20 on are not in it"):
                            await read(claim, 1)
                    else:
                        assert await read(claim, len(NEW)) == numbered("new", NEW)
