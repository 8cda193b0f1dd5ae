"""All transcripts, by theme. A theme's answers, as Apache Kafka gives them, are in `golden/<theme>.json`."""

from __future__ import annotations

from collections.abc import Mapping

from tests.transcripts.script import Transcript
from tests.transcripts.suite import admin, coordinators, expiry, joining, offsets, pending, protocols, states, static

THEMES: Mapping[str, tuple[Transcript, ...]] = {
    "admin": admin.TRANSCRIPTS,
    "coordinators": coordinators.TRANSCRIPTS,
    "expiry": expiry.TRANSCRIPTS,
    "joining": joining.TRANSCRIPTS,
    "offsets": offsets.TRANSCRIPTS,
    "pending": pending.TRANSCRIPTS,
    "protocols": protocols.TRANSCRIPTS,
    "states": states.TRANSCRIPTS,
    "static": static.TRANSCRIPTS,
}
