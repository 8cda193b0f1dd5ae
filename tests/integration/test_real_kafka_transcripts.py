"""Apache Kafka against its own recorded answers, live: 4.1 as it was recorded, three brokers of it, and 3.9.

`tests/transcripts` has the transcripts; what the embedded broker answers is held to the same records there.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable

import pytest

from tests.integration.real_kafka import RealKafka
from tests.transcripts import golden
from tests.transcripts.differences import KAFKA_3, KAFKA_4, assert_as_recorded
from tests.transcripts.golden import Plays
from tests.transcripts.player import play_all
from tests.transcripts.stage import live_stage
from tests.transcripts.suite import THEMES

pytestmark = pytest.mark.integration


def recorded() -> Plays:
    return {play: answers for theme in THEMES for play, answers in golden.load(theme).items()}


async def answers(kafka: RealKafka, chosen: Callable[[str], bool] = lambda profile: True) -> Plays:
    stage = await live_stage(kafka.bootstrap_servers[0], uuid.uuid4().hex[:8])
    transcripts = [t for theme in THEMES.values() for t in theme if t.brokers == len(kafka.nodes)]
    return await play_all(stage, transcripts, chosen)


async def test_kafka_4_answers_as_recorded(real_kafka: RealKafka) -> None:
    assert_as_recorded(KAFKA_4, recorded(), await answers(real_kafka))


async def test_kafka_4_of_three_brokers_answers_as_recorded(real_kafka_of_small_groups: RealKafka) -> None:
    assert_as_recorded(KAFKA_4, recorded(), await answers(real_kafka_of_small_groups))


async def test_kafka_3_answers_as_recorded_but_for_what_is_known(real_kafka_3: RealKafka) -> None:
    here = await answers(real_kafka_3, lambda profile: profile in ("lowest", "3.9"))

    assert_as_recorded(KAFKA_3, recorded(), here)
