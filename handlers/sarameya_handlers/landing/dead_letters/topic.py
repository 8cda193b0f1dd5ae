"""Dead letters as records of a Kafka topic: key, value and headers unchanged, followed by headers about the error.

The headers follow the names of Kafka Connect's (`__connect.errors.*`), and are text like those:

    __sarameya.errors.topic, .partition, .offset      the record's place
    __sarameya.errors.timestamp                       the record's timestamp in milliseconds; omitted if it has none
    __sarameya.errors.exception.message               the reason why it did not land
    __sarameya.errors.sink, .group                    the sink and the group that rejected it
    __sarameya.errors.link, .attempt                  the link whose offsets include the record, and its attempt

A dead letter's timestamp is the time of its writing. With the record's timestamp, retention would delete old letters at
once, and brokers would refuse timestamps in the future. The topic must not be compacted: compaction keeps one letter
for each key, and rejects letters without a key.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import Any, Self

import attrs

from sarameya import Config, ConfigError, HandlerError, Producer, ProducerRecord, SarameyaError
from sarameya_handlers.landing.dead_letters.letters import DeadLetter, DeadLetterError, DeadLetters
from sarameya_handlers.landing.links import ChainKey, Link

PREFIX = "__sarameya.errors."

_MAX_REQUEST_BYTES = 100 * 2**20
"""Default limit of a broker's requests (`socket.request.max.bytes`). Topics have lower limits of their own."""


class TopicDeadLetters(DeadLetters):
    """Dead letters in a topic, which must exist. All in-sync replicas have a letter when `write` returns.

    The topic's `max.message.bytes` should exceed that of the landed topics a little, since headers are added.

    Args:
        bootstrap_servers: Addresses, HOST:PORT each.
        topic: Name of the topic.
        config: Options of connection, retries and compression.
        **producer: Further arguments of `Producer`.

    Raises:
        ConfigError: The topic or an address is invalid.
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
        config = attrs.evolve(config, max_request_bytes=max(config.max_request_bytes, _MAX_REQUEST_BYTES))
        self._topic = topic
        self._producer = Producer(bootstrap_servers, config, **producer)
        self._is_open = False
        self._stored: dict[ChainKey, tuple[str, set[int]]] = {}
        """Letters already written one by one: by chain, the attempt and the offsets. A retry skips them, since one
        rejected letter must not duplicate the others."""

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
        attempt, offsets = self._stored.get(link.key, ("", set()))
        stored = offsets if attempt == link.attempt else None
        try:
            if stored is None:
                await self._producer.send_many(records.values())
            else:
                for offset in [offset for offset in records if offset not in stored]:
                    await self._producer.send_many([records[offset]])
                    stored.add(offset)
        except SarameyaError as error:
            if stored is None:
                self._stored[link.key] = (link.attempt, set())
            raise DeadLetterError(
                f"{link}: {len(letters)} dead letters were not all written to topic {self._topic!r}: {error}"
            ) from error
        self._stored.pop(link.key, None)


def _headers(link: Link, letter: DeadLetter) -> tuple[tuple[str, bytes | None], ...]:
    headers = {
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
        (PREFIX + name, str(value).encode(errors="replace")) for name, value in headers.items() if value is not None
    )
