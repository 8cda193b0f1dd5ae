"""Apache Kafka compared with its recorded responses: 4.1, which was recorded, and 3.9, with one broker and with three.

`tests/transcripts` has the transcripts, and compares the embedded broker with the same records.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

from tests.integration.real_kafka import KAFKA_3_VERSION, RealKafka
from tests.transcripts import golden
from tests.transcripts.differences import KAFKA_3, KAFKA_4, assert_as_recorded
from tests.transcripts.player import Chosen, everything, play_all
from tests.transcripts.script import SIZES, Transcript
from tests.transcripts.stage import RACKS, live_stage
from tests.transcripts.suite import THEMES
from tests.transcripts.versions import NOT_BEFORE_4

pytestmark = pytest.mark.integration


@pytest.fixture
def real_kafka_3_in_racks(tmp_path_factory: pytest.TempPathFactory, real_kafka_3: RealKafka) -> Iterator[RealKafka]:
    """Apache Kafka 3.9 with three brokers, each in its own rack."""
    directory = tmp_path_factory.mktemp("kafka-3-in-racks")
    with RealKafka(directory, brokers=3, version=KAFKA_3_VERSION, racks=RACKS) as kafka:
        yield kafka


def for_kafka_3(transcript: Transcript, profile: str) -> bool:
    """Return whether Kafka 3.9 plays it: groups in few versions, on one broker; logs in all its versions."""
    if transcript.topics:
        return profile not in NOT_BEFORE_4
    return profile in ("lowest", "3.9") and transcript.brokers == 1


async def assert_answers_as_recorded(broker: str, *clusters: RealKafka, chosen: Chosen = everything) -> None:
    """Play all transcripts for clusters of these sizes, and compare the responses with the recorded ones."""
    recorded, played = {}, {}
    for kafka in clusters:
        transcripts = [t for theme in THEMES.values() for t in theme if t.brokers == len(kafka.nodes)]
        plays = {(t.name, profile) for t in transcripts for profile in t.profiles if chosen(t, profile)}
        of_these = {at: answers for theme in THEMES for at, answers in golden.load(theme).items() if at in plays}
        stage = await live_stage(kafka.bootstrap_servers[0], uuid.uuid4().hex[:8])
        assert of_these.keys() == plays
        recorded |= of_these
        played |= await play_all(stage, transcripts, chosen)
    assert_as_recorded(broker, recorded, played)


async def test_kafka_4_answers_as_recorded(real_kafka: RealKafka) -> None:
    await assert_answers_as_recorded(KAFKA_4, real_kafka)


@pytest.mark.exhaustive
async def test_kafka_4_of_three_brokers_answers_as_recorded(real_kafka_of_small_groups: RealKafka) -> None:
    await assert_answers_as_recorded(KAFKA_4, real_kafka_of_small_groups)


@pytest.mark.exhaustive
async def test_kafka_3_answers_as_recorded_except_known_differences(
    real_kafka_3: RealKafka, real_kafka_3_in_racks: RealKafka
) -> None:
    await assert_answers_as_recorded(KAFKA_3, real_kafka_3, real_kafka_3_in_racks, chosen=for_kafka_3)


def test_each_transcript_belongs_to_a_played_cluster() -> None:
    assert {t.brokers for theme in THEMES.values() for t in theme} == {*SIZES} == {1, 3}
