"""A known difference between two brokers' responses. `known_groups` and `known_logs` have the rows."""

from __future__ import annotations

from fnmatch import fnmatchcase

import attrs

from tests.transcripts.responses import Plain


@attrs.frozen
class Known:
    """A known difference: its reason, the steps it occurs in, and both responses. All but `why` are patterns."""

    why: str
    transcript: str
    step: str
    field: str
    kafka: str
    """The value in Kafka 4.1's response."""
    here: str
    """The value in this broker's response."""
    by_chance: bool = False
    """True if it does not occur in every run: which of two equal members leads depends on Kafka's random ids."""

    def covers(self, found: Found) -> bool:
        pairs = [
            (found.transcript, self.transcript),
            (found.step, self.step),
            (found.field, self.field),
            (str(found.kafka), self.kafka),
            (str(found.here), self.here),
        ]
        return all(fnmatchcase(text, pattern) for text, pattern in pairs)


@attrs.frozen
class Found:
    """A field of a response that differs."""

    transcript: str
    profile: str
    step: str
    field: str
    kafka: Plain
    here: Plain

    def __str__(self) -> str:
        return (
            f"{self.transcript} ({self.profile})\n    {self.step}: {self.field or 'answered at all'}"
            f"\n    Kafka 4.1: {self.kafka!r}\n    here:      {self.here!r}"
        )


def fields(why: str, transcript: str, step: str, *fields: tuple[str, str, str], by_chance: bool = False) -> list[Known]:
    """Return a row for each field of a response that differs: (field, Kafka 4.1's value, this broker's value)."""
    return [Known(why, transcript, step, *field, by_chance=by_chance) for field in fields]
