"""`sarameya letters` with Apache Kafka 4 and 3: it lists dead letters, redrives them, and stores its progress."""

from __future__ import annotations

import sysconfig
import time
from contextlib import suppress
from pathlib import Path

import pytest
import trio

from sarameya import Config, ConsumerGroup, DeadLetterTopic, Message, MessageHandler, TopicPartition
from sarameya.embedded.groups.model.stored import StoredOffset
from sarameya.embedded.offsets_topic.offsets_records import OffsetKey, read_key, read_offset
from tests.group.kit import eventually
from tests.integration.log_comparison import UNCOMMITTED, LogEnds, by_librdkafka
from tests.integration.outcome import Outcome
from tests.integration.real_kafka import RealKafka
from tests.integration.real_kafka.producing import send

pytestmark = pytest.mark.integration

SARAMEYA = str(Path(sysconfig.get_path("scripts"), "sarameya"))
DEADLINE = 60.0
MESSAGES = 30


class Handler(MessageHandler):
    """Fails each message while `fails` is true. The exception depends on the message's number."""

    dead_letters = DeadLetterTopic()

    def __init__(self) -> None:
        self.fails = True
        self.failed: list[int] = []
        self.handled: list[tuple[int, int, tuple[tuple[str, bytes | None], ...]]] = []

    async def handle(self, message: Message) -> None:
        number = int(message.value or b"0")
        if self.fails:
            self.failed.append(number)
            raise TimeoutError("no answer") if number % 3 else ValueError(f"no customer {number}")
        self.handled.append((number, message.partition, message.headers))


async def letters(kafka: RealKafka, *arguments: str) -> Outcome:
    command = [SARAMEYA, "letters", *arguments, "--bootstrap-servers", ",".join(kafka.bootstrap_servers)]
    return Outcome.of(await trio.run_process(command, capture_stdout=True, capture_stderr=True, check=False))


def stored(kafka: RealKafka, group: str) -> dict[TopicPartition, StoredOffset]:
    """Return the group's commits, as Kafka has stored them."""
    ends = LogEnds.of(kafka, "__consumer_offsets", 5)
    found: dict[TopicPartition, StoredOffset] = {}
    for records in by_librdkafka(kafka, "__consumer_offsets", UNCOMMITTED, ends).records.values():
        for record in records:
            with suppress(ValueError):  # a record of another kind
                key = read_key(record.key or b"")
                if isinstance(key, OffsetKey) and key.group_id == group and record.value is not None:
                    found[key.partition] = read_offset(record.value)
    return found


async def test_dead_letters_of_a_handler_are_redriven_once(real_kafka_any: RealKafka) -> None:
    kafka = real_kafka_any
    topic, group, handler = kafka.create_topic("to-fail", 3), "failing", Handler()
    send(kafka, topic, ({"value": b"%d" % n, "key": b"k%d" % n, "partition": n % 3} for n in range(MESSAGES)))
    dead = f"{topic}.{group}.dead"
    config = Config(offset_initial="oldest", session_timeout=6.0)
    with trio.fail_after(DEADLINE):
        async with ConsumerGroup(kafka.bootstrap_servers, group, config) as member, trio.open_nursery() as nursery:
            nursery.start_soon(member.consume, [topic], handler)
            await eventually(lambda: len(handler.failed) == MESSAGES)
            await trio.sleep(1)  # until the last letter is acknowledged
            handler.fails = False

            listed = (await letters(kafka, "list", dead, "--json")).document
            assert {(row["error_message"], row["letters"]) for row in listed["kinds"]} == {
                ("no answer", 20),
                ("no customer #", 10),
            }
            dry = await letters(kafka, "redrive", dead, "--error-class", "TimeoutError", "--json")
            done = await letters(kafka, "redrive", dead, "--error-class", "TimeoutError", "--execute", "--json")
            assert (dry.code, done.code) == (0, 0)
            assert dry.document["targets"] == done.document["targets"]
            assert {**dry.document, "executed": True} == done.document
            await eventually(lambda: len(handler.handled) == 20)
            assert all(number % 3 and number % 3 == partition for number, partition, _ in handler.handled)
            assert {headers for _, _, headers in handler.handled} == {(("__sarameya.redriven", b"1"),)}

            assert (await letters(kafka, "list", dead, "--pending", "--json")).document["letters"] == 10
            assert (await letters(kafka, "redrive", dead, "--execute", "--json")).document["letters"] == 10
            assert (await letters(kafka, "redrive", dead, "--execute", "--json")).document["letters"] == 0
            await eventually(lambda: len(handler.handled) == MESSAGES)
            member.close_nowait()
    commits = await trio.to_thread.run_sync(stored, kafka, f"sarameya.letters.{dead}")
    assert sum(commit.committed.offset for commit in commits.values()) == MESSAGES
    assert all((commit.expires_at or 0) > time.time() + 9 * 365 * 86_400 for commit in commits.values())
