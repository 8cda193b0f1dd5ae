"""Letters counted by kind of error, for any number of kinds."""

from __future__ import annotations

from sarameya.service.letters.summary import OTHER_MESSAGES, LetterSummary
from tests.service.letters.kit import DEAD, failure_headers, letter


def test_letters_are_counted_by_kind_with_their_times() -> None:
    summary = LetterSummary(DEAD)
    for number, time in enumerate([3000, 1000, 2000]):
        headers = failure_headers(partition=number, error=f"no customer {number}")
        summary.add(letter(headers, offset=number, timestamp=time))
    summary.add(letter(failure_headers(error="timed out"), offset=3, timestamp=4000))
    summary.add(letter((("own", b"x"),), partition=1, offset=4, timestamp=-1))
    head, *rows, _, total = summary.text().splitlines()
    assert head.split() == ["LETTERS", "TOPIC", "PARTITIONS", "GROUP", "FIRST", "LAST", "ERROR", "MESSAGE"]
    times = ["1970-01-01T00:00:01Z", "1970-01-01T00:00:03Z"]
    assert [row.split(maxsplit=7) for row in rows] == [
        ["3", "orders", "0-2", "billing", *times, "builtins.ValueError", "no customer #"],
        ["1", *["-"] * 7],
        ["1", "orders", "0", "billing", *["1970-01-01T00:00:04Z"] * 2, "builtins.ValueError", "timed out"],
    ]
    assert total == "5 letters"
    document = summary.document()
    assert (document["topic"], document["letters"]) == (DEAD, 5)
    assert document["kinds"][0] == {
        "topic": "orders",
        "group": "billing",
        "error_class": "builtins.ValueError",
        "error_message": "no customer #",
        "letters": 3,
        "partitions": {"0": 1, "1": 1, "2": 1},
        "first": {"partition": 0, "offset": 1, "timestamp": 1000},
        "last": {"partition": 0, "offset": 0, "timestamp": 3000},
    }
    assert document["kinds"][1]["topic"] is None


def test_summary_without_letters_has_no_table() -> None:
    assert LetterSummary(DEAD).text() == "no letters"
    assert LetterSummary(DEAD).document() == {"topic": DEAD, "letters": 0, "kinds": []}


def test_further_kinds_are_counted_together() -> None:
    summary = LetterSummary(DEAD, most_kinds=3)
    for word in ("a", "b", "c", "d", "e", "a"):
        summary.add(letter(failure_headers(error=f"{word}!")))
    assert [(row["error_message"], row["letters"]) for row in summary.document()["kinds"]] == [
        (OTHER_MESSAGES, 2),
        ("a!", 2),
        ("b!", 1),
        ("c!", 1),
    ]
    for number in range(100):
        summary.add(letter(failure_headers(topic=f"topic-{number}")))
    assert len(summary.document()["kinds"]) == 7
    assert summary.letters == 106
