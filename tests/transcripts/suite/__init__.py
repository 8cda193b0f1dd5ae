"""All transcripts, by theme. A theme's answers, as Apache Kafka gives them, are in `golden/<theme>.json`."""

from __future__ import annotations

from collections.abc import Mapping

from tests.transcripts.script import Transcript
from tests.transcripts.suite import (
    admin,
    coordinators,
    expiry,
    fetch_sessions,
    joining,
    offsets,
    pending,
    produce,
    producers,
    protocols,
    states,
    static,
)

THEMES: Mapping[str, tuple[Transcript, ...]] = {
    # Groups
    "admin": admin.TRANSCRIPTS,
    "coordinators": coordinators.TRANSCRIPTS,
    "expiry": expiry.TRANSCRIPTS,
    "joining": joining.TRANSCRIPTS,
    "offsets": offsets.TRANSCRIPTS,
    "pending": pending.TRANSCRIPTS,
    "protocols": protocols.TRANSCRIPTS,
    "states": states.TRANSCRIPTS,
    "static": static.TRANSCRIPTS,
    # Logs
    "fetch_sessions": fetch_sessions.TRANSCRIPTS,
    "produce": produce.TRANSCRIPTS,
    "producers": producers.TRANSCRIPTS,
}
