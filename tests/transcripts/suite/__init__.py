"""All transcripts, by theme. `golden/<theme>.json` has Apache Kafka's responses to a theme."""

from __future__ import annotations

from collections.abc import Mapping

from tests.transcripts.script import Transcript
from tests.transcripts.suite import (
    admin,
    coordinators,
    expiry,
    fetch,
    fetch_sessions,
    followers,
    joining,
    leader_epochs,
    list_offsets,
    offsets,
    pending,
    produce,
    producers,
    protocols,
    states,
    static,
    transactions,
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
    "fetch": fetch.TRANSCRIPTS,
    "fetch_sessions": fetch_sessions.TRANSCRIPTS,
    "followers": followers.TRANSCRIPTS,
    "leader_epochs": leader_epochs.TRANSCRIPTS,
    "list_offsets": list_offsets.TRANSCRIPTS,
    "produce": produce.TRANSCRIPTS,
    "producers": producers.TRANSCRIPTS,
    "transactions": transactions.TRANSCRIPTS,
}
