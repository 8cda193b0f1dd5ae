"""The embedded broker compared with the recorded responses of Apache Kafka 4.1. See `transcripts/__init__`."""

from __future__ import annotations

from collections import Counter

import pytest
import trio.testing

from sarameya.embedded.apis.versions import NAMED_VERSIONS
from sarameya.protocol.versions import Api
from tests.transcripts import golden
from tests.transcripts.differences import EMBEDDED, NOT_PLAYED, assert_as_recorded
from tests.transcripts.golden import Plays
from tests.transcripts.player import play_all
from tests.transcripts.script import SIZES, Send
from tests.transcripts.stage import embedded_stage
from tests.transcripts.suite import THEMES
from tests.transcripts.suite.states import (
    BATCH_PROBES,
    LISTING_PROBES,
    PROBES,
    STATES,
    STATIC_BATCH_PROBES,
    STATIC_PROBES,
    STATIC_STATES,
)
from tests.transcripts.versions import PROFILES


async def embedded_responses(theme: str) -> Plays:
    played = {}
    for brokers in SIZES:
        async with embedded_stage(brokers) as stage:
            played |= await play_all(stage, [t for t in THEMES[theme] if t.brokers == brokers])
    return played


def test_transcript_names_are_unique() -> None:
    names = Counter(t.name for transcripts in THEMES.values() for t in transcripts)

    assert [name for name, count in names.items() if count > 1] == []


def test_every_state_is_combined_with_every_request() -> None:
    played = {t.name for t in THEMES["states"]}
    cells = {
        f"{state}: {probe}"
        for states, probes in [
            (STATES, {**PROBES, **BATCH_PROBES, **LISTING_PROBES}),
            (STATIC_STATES, {**STATIC_PROBES, **STATIC_BATCH_PROBES}),
        ]
        for state in states
        for probe in probes
    }

    assert cells - played == NOT_PLAYED.keys()
    assert NOT_PLAYED.keys().isdisjoint(played)


@pytest.mark.parametrize("api", [Api.PRODUCE, Api.FETCH, Api.LIST_OFFSETS, Api.OFFSET_FOR_LEADER_EPOCH])
def test_every_version_of_log_requests_is_played(api: Api) -> None:
    played = {
        PROFILES[profile][api]
        for theme in THEMES.values()
        for transcript in theme
        for step in transcript.steps
        if isinstance(step, Send) and step.api is api and step.version is None
        for profile in transcript.profiles
    }
    low, high = NAMED_VERSIONS[api]

    assert played == {*range(low, high + 1)}


@pytest.mark.parametrize("theme", THEMES)
def test_golden_file_has_exactly_the_plays_of_its_theme(theme: str) -> None:
    assert golden.load(theme).keys() == {(t.name, profile) for t in THEMES[theme] for profile in t.profiles}


async def test_embedded_broker_responds_as_kafka(autojump_clock: trio.testing.MockClock) -> None:
    kafka, here = {}, {}
    for theme in THEMES:
        kafka |= golden.load(theme)
        here |= await embedded_responses(theme)

    assert_as_recorded(EMBEDDED, kafka, here)
