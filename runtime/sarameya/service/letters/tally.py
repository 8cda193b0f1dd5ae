"""Counts of letters, and where the first and the last one are. Pure."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple, TypeVar

import attrs

from sarameya.handling.letters import Letter
from sarameya.model import Message
from sarameya.service.output.command_result import Document

K = TypeVar("K")


class LetterPlace(NamedTuple):
    """Place of a letter in its topic, and the time of its writing in milliseconds since 1970."""

    partition: int
    offset: int
    timestamp: int

    @classmethod
    def of(cls, message: Message) -> LetterPlace:
        """Return the place of a letter."""
        return cls(message.partition, message.offset, message.timestamp)

    def __str__(self) -> str:
        return f"{self.partition}:{self.offset}"


@attrs.define(slots=True)
class Tally:
    """A number of letters, and the first and the last one by time."""

    first: LetterPlace
    last: LetterPlace
    letters: int = 0
    partitions: Counter[int] = attrs.field(factory=Counter)
    """Partition that the messages came from -> number of letters. Letters without one are left out."""

    def add(self, letter: Letter) -> None:
        """Count one more letter."""
        place = LetterPlace.of(letter.message)
        self.letters += 1
        if letter.partition is not None:
            self.partitions[letter.partition] += 1
        if place.timestamp < self.first.timestamp:
            self.first = place
        if place.timestamp >= self.last.timestamp:
            self.last = place

    def document(self) -> Document:
        """Return number and places for programs."""
        return {"letters": self.letters, "first": self.first._asdict(), "last": self.last._asdict()}


def count(tallies: dict[K, Tally], key: K, letter: Letter) -> None:
    """Count a letter in the tally of its kind."""
    if key not in tallies:
        tallies[key] = Tally(LetterPlace.of(letter.message), LetterPlace.of(letter.message))
    tallies[key].add(letter)
