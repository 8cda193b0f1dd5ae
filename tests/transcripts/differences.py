"""Responses that differ from Apache Kafka 4.1's, on purpose or since a broker is older: each with its reason.

The patterns are those of `fnmatch`. A row that matches no difference any more is an error too, and so is a missing
play.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tests.transcripts import known_groups, known_logs
from tests.transcripts.golden import Plays
from tests.transcripts.known import Found, Known
from tests.transcripts.responses import ABSENT, compare

EMBEDDED = "the embedded broker"
KAFKA_4 = "Kafka 4.1"
KAFKA_3 = "Kafka 3.9"

KNOWN: Mapping[str, tuple[Known, ...]] = {
    EMBEDDED: known_groups.EMBEDDED_BROKER + known_logs.EMBEDDED_BROKER,
    KAFKA_4: (),
    KAFKA_3: known_groups.KAFKA_3_9 + known_logs.KAFKA_3_9,
}

NOT_PLAYED: Mapping[str, str] = {
    "preparing, the follower has joined again: the leader leaves": (
        "one of the two that have joined becomes the leader; which one depends on Kafka's hash map of random ids, so "
        "the next run may differ (tests/embedded tests the embedded broker: the member that joined the group first)"
    ),
}
"""Combinations of `suite.states` without a transcript, each with its reason."""


def find(kafka: Plays, here: Plays) -> Iterator[Found]:
    """Yield all differences between the recorded plays and those of this broker."""
    for (transcript, profile), answers in here.items():
        expected = kafka[transcript, profile]
        for step in dict.fromkeys([*expected, *answers]):
            for field, expected_value, value in compare(expected.get(step, ABSENT), answers.get(step, ABSENT)):
                yield Found(transcript, profile, step, field, expected_value, value)


def assert_as_recorded(broker: str, kafka: Plays, here: Plays) -> None:
    """Raise AssertionError with all complaints about a broker's responses."""
    wrong = complaints(broker, kafka, here)
    if wrong:
        raise AssertionError("\n".join([f"{broker}: {len(wrong)} complaints", *wrong]))


def complaints(broker: str, kafka: Plays, here: Plays) -> list[str]:
    """Return the faults of a broker's responses: missing plays, unknown differences, and known ones that do not occur.

    `kafka` has the expected plays, `here` the actual ones.
    """
    known = KNOWN[broker]
    matched: set[Known] = set()
    wrong = [f"{transcript} ({profile}): not played" for transcript, profile in sorted(kafka.keys() - here.keys())]
    for found in find(kafka, here):
        covering = [row for row in known if row.covers(found)]
        matched.update(covering)
        if not covering:
            wrong.append(str(found))
    stale = [row for row in known if row not in matched and not row.by_chance]
    return wrong + [f"no longer a difference, remove it: {row}" for row in stale]
