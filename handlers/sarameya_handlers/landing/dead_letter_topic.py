"""Dead letters as records of a Kafka topic: key, value and headers as they were, and behind them what went wrong.

The headers are named as Kafka Connect's are (`__connect.errors.*`), and are text, as there:

    __sarameya.errors.topic, .partition, .offset      where the record stands
    __sarameya.errors.timestamp                       its timestamp, in milliseconds; left out if it has none
    __sarameya.errors.exception.message               why it did not land
    __sarameya.errors.sink, .group                    who would have landed it
    __sarameya.errors.link, .attempt                  the number of the link that leaves it out, and the try of it

The letter's own timestamp is that of its writing: with the record's, a topic would remove old ones at once, and refuse
those of tomorrow. Not for a compacted topic, which keeps one letter a key and takes none without.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import Any, Self

import attrs

from sarameya import Config, ConfigError, HandlerError, Producer, ProducerRecord, SarameyaError
from sarameya_handlers.landing.dead_letters import DeadLetter, DeadLetterError, DeadLetters
from sarameya_handlers.landing.links import Link

PREFIX = "__sarameya.errors."

_MOST_BYTES = 100 * 2**20
"""No broker takes more in a request, as it comes; whether a topic takes a letter is the topic's own matter."""


class TopicDeadLetters(DeadLetters):
    """Writes to a topic, which must be there, and should take a little more than the topics that are landed
    (`max.message.bytes`): headers are added. All in-sync replicas have a letter when `write` returns.

    `config` is for the connection, retries and compression; the other arguments are those of `Producer`. Raises
    ConfigError for a topic or an address that cannot be.
    """

    def __init__(
        self,
        bootstrap_servers: Sequence[str] | str,
        topic: str,
        config: Config | None = None,
        **producer: Any,
    ) -> None:
        if not isinstance(topic, str) or not topic:
            raise ConfigError("topic", topic, "must be the name of a topic for dead letters")
        config = config if config is not None else Config(compression="zstd")
        config = attrs.evolve(config, max_request_bytes=max(config.max_request_bytes, _MOST_BYTES))
        self._topic = topic
        self._producer = Producer(bootstrap_servers, config, **producer)
        self._is_open = False
        self._stored: dict[str, set[int]] = {}
        """By attempt, of letters that could not be written together: the offsets of those that were, one by one. One
        that a topic never takes is tried again and again, and its neighbours with it would fill the topic."""

    @property
    def name(self) -> str:
        return f"topic {self._topic}"

    async def __aenter__(self) -> Self:
        await self._producer.__aenter__()
        self._is_open = True
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._is_open = False
        await self._producer.__aexit__(kind, error, trace)

    async def write(self, link: Link, letters: Sequence[DeadLetter]) -> None:
        if not self._is_open:
            raise HandlerError("dead letters must be entered first: async with TopicDeadLetters(...) as letters")
        records = {
            letter.offset: ProducerRecord(
                self._topic, letter.value, letter.key, letter.headers + _headers(link, letter)
            )
            for letter in letters
        }
        stored = self._stored.get(link.attempt)
        try:
            if stored is None:
                await self._producer.send_many(records.values())
            else:
                for offset in [offset for offset in records if offset not in stored]:
                    await self._producer.send_many([records[offset]])
                    stored.add(offset)
        except SarameyaError as error:
            self._stored.setdefault(link.attempt, set())
            raise DeadLetterError(
                f"{link}: {len(letters)} dead letters were not all written to topic {self._topic!r}: {error}"
            ) from error
        self._stored.pop(link.attempt, None)


def _headers(link: Link, letter: DeadLetter) -> tuple[tuple[str, bytes | None], ...]:
    told = {
        "topic": link.key.topic,
        "partition": link.key.partition,
        "offset": letter.offset,
        "timestamp": letter.timestamp,
        "exception.message": letter.error,
        "sink": link.key.sink,
        "group": link.origin.group,
        "link": link.number,
        "attempt": link.attempt,
    }
    return tuple(
        (PREFIX + name, str(value).encode(errors="replace")) for name, value in told.items() if value is not None
    )
