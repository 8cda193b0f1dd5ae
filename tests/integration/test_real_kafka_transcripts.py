"""Apache Kafka against its own recorded answers, live: 4.1 as it was recorded, three brokers of it, and 3.9.

`tests/transcripts` has the transcripts; what the embedded broker answers is held to the same records there.
"""

from __future__ import annotations

import uuid

import pytest

from tests.integration.real_kafka import RealKafka
from tests.transcripts import golden
from tests.transcripts.differences import KAFKA_3, KAFKA_4, assert_as_recorded
from tests.transcripts.player import Chosen, everything, play_all
from tests.transcripts.script import SIZES, Transcript
from tests.transcripts.stage import live_stage
from tests.transcripts.suite import THEMES
from tests.transcripts.versions import NOT_BEFORE_4

pytestmark = pytest.mark.integration


def for_kafka_3(transcript: Transcript, profile: str) -> bool:
    """What Kafka 3.9 is asked: about groups in few versions, about logs in all that it speaks."""
    return profile not in NOT_BEFORE_4 if transcript.topics else profile in ("lowest", "3.9")


async def assert_answers_as_recorded(broker: str, kafka: RealKafka, chosen: Chosen = everything) -> None:
    """Plays all that is written for a cluster of this size, and compares the answers."""
    transcripts = [t for theme in THEMES.values() for t in theme if t.brokers == len(kafka.nodes)]
    plays = {(t.name, profile) for t in transcripts for profile in t.profiles if chosen(t, profile)}
    recorded = {at: answers for theme in THEMES for at, answers in golden.load(theme).items() if at in plays}
    stage = await live_stage(kafka.bootstrap_servers[0], uuid.uuid4().hex[:8])

    assert recorded.keys() == plays
    assert_as_recorded(broker, recorded, await play_all(stage, transcripts, chosen))


async def test_kafka_4_answers_as_recorded(real_kafka: RealKafka) -> None:
    await assert_answers_as_recorded(KAFKA_4, real_kafka)


async def test_kafka_4_of_three_brokers_answers_as_recorded(real_kafka_of_small_groups: RealKafka) -> None:
    await assert_answers_as_recorded(KAFKA_4, real_kafka_of_small_groups)


async def test_kafka_3_answers_as_recorded_but_for_what_is_known(real_kafka_3: RealKafka) -> None:
    await assert_answers_as_recorded(KAFKA_3, real_kafka_3, for_kafka_3)


def test_each_transcript_is_for_a_cluster_that_is_played_on_here() -> None:
    assert {t.brokers for theme in THEMES.values() for t in theme} == {*SIZES} == {1, 3}
