"""Conditions that select letters. Pure."""

from __future__ import annotations

import re

import attrs

from sarameya.handling.letters import Letter
from sarameya.model import TopicPartition
from sarameya.service.groups.topic_choice import TopicChoice

_WORD = re.compile(r"\w+")
_HEXADECIMAL = re.compile(r"(0x)?[0-9a-fA-F]+")
_DIGITS = re.compile(r"[0-9]+")
_NUMBERS = re.compile(r"#(?:[-.:]#)+")
_MOST_CHARACTERS = 200
"""Characters of an error's text that are compared."""


def folded(message: str) -> str:
    """Return the start of an error's text, with `#` in place of numbers and ids: the same for errors of one kind."""
    lines = message[:_MOST_CHARACTERS].strip().splitlines()
    return _NUMBERS.sub("#", _WORD.sub(_fold_word, lines[0])) if lines else ""


def _fold_word(word: re.Match[str]) -> str:
    text = word[0]
    if not _DIGITS.search(text):
        return text
    return "#" if _HEXADECIMAL.fullmatch(text) else _DIGITS.sub("#", text)


@attrs.frozen(slots=True, kw_only=True)
class LetterFilter:
    """Conditions on letters. All conditions have to hold; of several values for one condition, any.

    Attributes:
        since: Time of the letter in milliseconds since 1970, at least.
        until: The same, less than this.
        origins: Topics and partitions that the messages were first written to.
        groups: Groups that could not handle them.
        error_classes: Classes of the exception, with or without their module.
        error_texts: Texts in the exception's text, in any case. `#` may stand for numbers and ids, as in `folded`.
    """

    since: int | None = None
    until: int | None = None
    origins: tuple[TopicChoice, ...] = ()
    groups: tuple[str, ...] = ()
    error_classes: tuple[str, ...] = ()
    error_texts: tuple[str, ...] = ()

    def matches(self, letter: Letter) -> bool:
        """Return whether all conditions hold for a letter."""
        written = letter.message.timestamp
        if self.since is not None and written < self.since:
            return False
        if self.until is not None and written >= self.until:
            return False
        if self.groups and letter.group not in self.groups:
            return False
        if self.origins and not any(_is_from(letter, origin) for origin in self.origins):
            return False
        if self.error_classes and not any(_is_class(letter.error_class, name) for name in self.error_classes):
            return False
        return not self.error_texts or any(_has_text(letter.error_message, text) for text in self.error_texts)


def _is_from(letter: Letter, origin: TopicChoice) -> bool:
    if letter.partition is None:
        return letter.topic == origin.topic and origin.partitions is None
    return origin.covers(TopicPartition(letter.topic, letter.partition))


def _is_class(name: str, wanted: str) -> bool:
    return name == wanted or name.endswith(f".{wanted}")


def _has_text(message: str, wanted: str) -> bool:
    text = wanted.casefold()
    return text in message.casefold() or text in folded(message).casefold()
