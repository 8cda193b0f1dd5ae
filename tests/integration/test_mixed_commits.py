"""Commits of message handlers, sarama and confluent-kafka in one group on Apache Kafka."""

from __future__ import annotations

import signal

import pytest
import trio

from bench.rebalance.contenders import commands
from sarameya import TopicPartition
from sarameya.protocol.completion_tracker import Completion
from tests.integration.peers.lines import MemberOptions
from tests.integration.peers.running import Peer, open_peers
from tests.integration.real_kafka import RealKafka
from tests.integration.real_kafka.cluster import Commits
from tests.integration.real_kafka.producing import send

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("go")]

SECONDS = 120.0
COUNT = 30
HELD = (5, 6, 17)
"""Offsets of the messages that are not finished when the other client takes over."""
TAKEN = 7
"""Number of messages that the other client reads. Its commit lies between offsets in our commit's metadata."""


@pytest.mark.parametrize("kind", ["sarama", "confluent-kafka"])
async def test_owners_continue_from_the_commits_of_another_client(real_kafka: RealKafka, kind: str) -> None:
    topic = real_kafka.create_topic(f"mixed-commits-{kind}")
    partition = TopicPartition(topic, 0)
    records = [{"key": b"%d" % n, "value": b"held" if n in HELD else b"quick", "partition": 0} for n in range(COUNT)]
    await trio.to_thread.run_sync(send, real_kafka, topic, records)

    def has_all_but_held(commits: Commits) -> bool:
        found = Completion.of_commit(commits[partition]) if partition in commits else None
        return found is not None and (found.unfinished, found.end) == (HELD, COUNT)

    async def start(kind: str, limit: int = 0) -> Peer:
        bootstrap, client_id = real_kafka.bootstrap_servers[0], f"{kind}-{len(peers.all)}"
        return await peers.start(kind, MemberOptions(bootstrap, topic, topic, client_id, limit=limit))

    with trio.fail_after(SECONDS):
        async with open_peers(await trio.to_thread.run_sync(commands)) as peers:
            first = await start("message-handler")
            await real_kafka.until_commits(topic, has_all_but_held)
            await first.stop()
            assert has_all_but_held(await real_kafka.until_commits(topic))

            other = await start(kind, TAKEN)
            await peers.until(lambda: len(other.messages) == TAKEN)
            await other.stop()
            commit = (await real_kafka.until_commits(topic))[partition]
            assert [line.offset for line in other.messages] == list(range(HELD[0], HELD[0] + TAKEN))
            assert commit.offset == HELD[0] + TAKEN

            second = await start("message-handler")
            await peers.until(lambda: second.owned() == {0})
            second.send_signal(signal.SIGUSR1)
            await real_kafka.until_committed(topic, COUNT, SECONDS)
            await second.stop()
            assert sorted(line.offset for line in second.reports("begun")) == list(range(commit.offset, COUNT))
