"""Numbers of letters by kind: the output of `sarameya letters list`. Pure.

Letters are of one kind if they have the same topic of origin, group, class of the exception, and text of the exception
but for numbers. The number of kinds is bounded, so that any number of letters can be summed up.
"""

from __future__ import annotations

from typing import NamedTuple

from sarameya.handling.letters import Letter
from sarameya.service.groups.tables import ranges_text
from sarameya.service.letters.filters import folded
from sarameya.service.letters.letter_text import iso_time, shortened
from sarameya.service.letters.tally import Tally, count
from sarameya.service.output.command_result import Document
from sarameya.service.output.text import counted, table

_MOST_KINDS = 1000
OTHER_MESSAGES = "(other messages)"
"""In place of the text, for letters of further kinds."""
_SHOWN_CHARACTERS = 80


class LetterKind(NamedTuple):
    """Common properties of letters of one kind. Empty texts are unknown."""

    topic: str
    group: str
    error_class: str
    error_message: str


_OTHERS = LetterKind("", "", "", OTHER_MESSAGES)


class LetterSummary:
    """The kinds of letters in a topic.

    Args:
        topic: The topic.
        most_kinds: Number of kinds that are told apart.
    """

    def __init__(self, topic: str, most_kinds: int = _MOST_KINDS) -> None:
        self._topic = topic
        self._most_kinds = most_kinds
        self._rows: dict[LetterKind, Tally] = {}

    def add(self, letter: Letter) -> None:
        """Count a letter."""
        kind = LetterKind(letter.topic, letter.group, letter.error_class, folded(letter.error_message))
        if len(self._rows) >= self._most_kinds and kind not in self._rows:
            kind = kind._replace(error_message=OTHER_MESSAGES)
            if len(self._rows) >= 2 * self._most_kinds and kind not in self._rows:
                kind = _OTHERS
        count(self._rows, kind, letter)

    @property
    def letters(self) -> int:
        """Number of all letters."""
        return sum(row.letters for row in self._rows.values())

    def text(self) -> str:
        """Return the summary for people."""
        if not self._rows:
            return "no letters"
        header = ("LETTERS", "TOPIC", "PARTITIONS", "GROUP", "FIRST", "LAST", "ERROR", "MESSAGE")
        rows = [
            (
                row.letters,
                kind.topic,
                ranges_text(row.partitions),
                kind.group,
                iso_time(row.first.timestamp),
                iso_time(row.last.timestamp),
                kind.error_class,
                shortened(kind.error_message, _SHOWN_CHARACTERS),
            )
            for kind, row in self._sorted()
        ]
        return f"{table(header, rows)}\n\n{counted(self.letters, 'letter')}"

    def document(self) -> Document:
        """Return the summary for programs."""
        return {
            "topic": self._topic,
            "letters": self.letters,
            "kinds": [
                {
                    "topic": kind.topic or None,
                    "group": kind.group or None,
                    "error_class": kind.error_class or None,
                    "error_message": kind.error_message or None,
                    "partitions": {str(number): row.partitions[number] for number in sorted(row.partitions)},
                    **row.document(),
                }
                for kind, row in self._sorted()
            ],
        }

    def _sorted(self) -> list[tuple[LetterKind, Tally]]:
        return sorted(self._rows.items(), key=lambda item: (-item[1].letters, item[0]))
