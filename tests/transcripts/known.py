"""A known difference between two brokers' answers. The rows are in `known_groups` and `known_logs`."""

from __future__ import annotations

from fnmatch import fnmatchcase

import attrs

from tests.transcripts.answers import Plain


@attrs.frozen
class Known:
    """A difference that is known: which steps of which transcripts it concerns, what is answered there, and why."""

    why: str
    transcript: str
    step: str
    field: str
    kafka: str
    """What Kafka 4.1 answers."""
    here: str
    """What this broker answers."""
    by_chance: bool = False
    """Not met in every run: which of two equals leads is for Kafka's hash map of random ids to say."""

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
    """A field of one answer that differs."""

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
    """Fields of one answer that differ for one reason: (field, what Kafka 4.1 answers, what this broker does)."""
    return [Known(why, transcript, step, *field, by_chance=by_chance) for field in fields]
