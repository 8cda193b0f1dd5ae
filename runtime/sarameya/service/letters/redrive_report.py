"""Report about the letters that a redrive sends, and those that it does not: text, document and errors. Pure."""

from __future__ import annotations

import attrs

from sarameya.errors import SarameyaError
from sarameya.handling.letters import Letter
from sarameya.producer.record import ProducerRecord
from sarameya.service.letters.redrive_rules import Refusal
from sarameya.service.letters.tally import Tally, count
from sarameya.service.output.command_result import CommandResult, Document
from sarameya.service.output.text import counted, table


class NotSentError(SarameyaError):
    """Letters that were not sent back. The message has the first one, the reason and the remedy."""

    def __init__(self, text: str, permanent: bool) -> None:
        super().__init__(text, permanent)
        self.permanent = permanent

    def __str__(self) -> str:
        return str(self.args[0])


@attrs.define(slots=True)
class RedriveReport:
    """Letters of a redrive.

    Attributes:
        topic: Topic of the letters.
        group: Group that keeps the progress.
        executed: Letters are sent, not only shown.
        done_offsets: Offsets that earlier redrives have settled.
        not_matching: Letters that the filters leave out.
        errors: Errors that ended the redrive, or its part in a partition.
    """

    topic: str
    group: str
    executed: bool
    done_offsets: int = 0
    not_matching: int = 0
    errors: list[SarameyaError] = attrs.field(factory=list)
    _sent: dict[tuple[str, int], Tally] = attrs.field(factory=dict)
    """By target; the partition is -1 if any may get it."""
    _refused: dict[Refusal, Tally] = attrs.field(factory=dict)

    def add(self, letter: Letter, record: ProducerRecord) -> None:
        """Count a letter that was sent or would be sent."""
        count(self._sent, (record.topic, -1 if record.partition is None else record.partition), letter)

    def refuse(self, letter: Letter, refusal: Refusal) -> None:
        """Count a letter that must not be sent."""
        count(self._refused, refusal, letter)

    @property
    def letters(self) -> int:
        """Number of letters that were sent, or would be sent."""
        return sum(tally.letters for tally in self._sent.values())

    def result(self) -> CommandResult:
        """Return the result of the command."""
        refused = (
            NotSentError(
                f"{counted(tally.letters, 'letter')} not sent, the first at {self.topic}-{tally.first.partition} "
                f"offset {tally.first.offset}: {refusal.reason}",
                refusal.permanent,
            )
            for refusal, tally in self._refused.items()
        )
        return CommandResult(self._document(), self._text(), (*refused, *self.errors))

    def _text(self) -> str:
        header = ("TO", "PARTITION", "LETTERS", "FIRST", "LAST")
        rows = [
            (topic, "any" if partition < 0 else str(partition), tally.letters, str(tally.first), str(tally.last))
            for (topic, partition), tally in sorted(self._sent.items())
        ]
        lines = [table(header, rows), ""] if rows else []
        lines.append(
            f"{counted(self.letters, 'letter')} of topic {self.topic!r} {'sent' if self.executed else 'to send'}"
        )
        if self.not_matching:
            lines.append(f"{counted(self.not_matching, 'letter')} left out by the filters")
        if self.done_offsets:
            lines.append(f"{counted(self.done_offsets, 'offset')} done before, as group {self.group!r} has committed")
        if not self.executed:
            lines.append("Nothing is sent yet: add --execute to do it.")
        return "\n".join(lines)

    def _document(self) -> Document:
        return {
            "topic": self.topic,
            "group": self.group,
            "executed": self.executed,
            "letters": self.letters,
            "targets": [
                {"topic": topic, "partition": None if partition < 0 else partition, **tally.document()}
                for (topic, partition), tally in sorted(self._sent.items())
            ],
            "refused": [{"reason": refusal.reason, **tally.document()} for refusal, tally in self._refused.items()],
            "not_matching": self.not_matching,
            "done_offsets": self.done_offsets,
            "errors": [str(error) for error in self.errors],
        }
