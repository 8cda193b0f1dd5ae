"""Reads topics of dead letters: from an offset up to the end that the log had when the command started. Trio.

Letters of aborted transactions are not read, whatever the configuration says: their producer writes them again if the
messages fail again. Letters of a transaction that has not ended, and those after them, are left for later commands.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import attrs
import trio

from sarameya.config import Config, IsolationLevel
from sarameya.errors import RequestTimeoutError, SarameyaError
from sarameya.group.claim import Claim
from sarameya.group.standalone import Consumer
from sarameya.handling.letters import Letter
from sarameya.model import LogRange, Message, TopicPartition
from sarameya.net.admin.group_admin import GroupAdmin
from sarameya.net.log_offsets import LOG_END, LOG_START, NO_SUCH_OFFSET
from sarameya.net.transport import Transport
from sarameya.producer.producer import Producer
from sarameya.service.groups.topic_choice import TopicChoice, resolve
from sarameya.service.letters.filters import LetterFilter
from sarameya.service.letters.redrive_progress import RedriveProgress
from sarameya.service.output.command_result import log_client_event

_POLL = 0.2
"""Seconds between two looks at the position of a claim without messages."""

_ISOLATION: IsolationLevel = "read_committed"

_MAX_REQUEST_BYTES = 100 * 2**20
"""Default limit of a broker's requests (`socket.request.max.bytes`). Topics have lower limits of their own."""


@attrs.frozen(slots=True)
class Clients:
    """The clients of a command.

    Attributes:
        bootstrap_servers: Addresses, each HOST:PORT.
        config: Options of all clients.
        transport: Opens the connections; TCP if None.
        wall_clock: Returns the seconds since 1970.
        rng: Jitters retries, and chooses partitions of messages without a key.
    """

    bootstrap_servers: Sequence[str]
    config: Config
    transport: Transport | None = None
    wall_clock: Callable[[], float] = time.time
    rng: random.Random = attrs.field(factory=random.Random)

    def admin(self) -> GroupAdmin:
        """Return an admin client."""
        return GroupAdmin(self.bootstrap_servers, self.config, log_client_event, self.transport)

    def consumer(self) -> Consumer:
        """Return a consumer. It goes on at the start of the log if letters are deleted while it reads."""
        config = attrs.evolve(self.config, isolation_level=_ISOLATION, offset_out_of_range="oldest", topics={})
        return Consumer(
            self.bootstrap_servers,
            config,
            observers=[log_client_event],
            transport=self.transport,
            rng=self.rng,
            wall_clock=self.wall_clock,
        )

    def producer(self) -> Producer:
        """Return a producer. It compresses: a message that fitted into its topic may have been compressed, too."""
        config = self.config
        codec = "zstd" if config.compression == "none" else config.compression
        size = max(config.max_request_bytes, _MAX_REQUEST_BYTES)
        return Producer(
            self.bootstrap_servers,
            attrs.evolve(config, compression=codec, max_request_bytes=size),
            observers=[log_client_event],
            transport=self.transport,
            rng=self.rng,
            wall_clock=self.wall_clock,
        )


@attrs.frozen(slots=True)
class Selection:
    """The letters that a command is about.

    Attributes:
        choice: The topic, and its partitions.
        offsets: Offsets of the letters in each of its partitions, the last one included; None: no limit.
        filter: Conditions on the letters.
    """

    choice: TopicChoice
    offsets: tuple[int, int | None] = (0, None)
    filter: LetterFilter = attrs.field(factory=LetterFilter)


@attrs.frozen(slots=True)
class LetterLog:
    """The logs of a topic of dead letters, when the command started.

    Attributes:
        topic_id: Id of the topic; empty for brokers without topic ids.
        starts: Start of each log.
        ends: End of each log.
        ranges: Offsets to read, for each partition that can be read.
        errors: The reasons why others cannot be read.
    """

    topic_id: str
    starts: Mapping[TopicPartition, int]
    ends: Mapping[TopicPartition, int]
    ranges: Mapping[TopicPartition, LogRange]
    errors: tuple[SarameyaError, ...]


async def look_up(admin: GroupAdmin, selection: Selection, *, seek: bool = True) -> LetterLog:
    """Return the logs of the selected letters, and the offsets to read.

    Args:
        admin: Sends the requests.
        selection: The letters.
        seek: Leave out offsets before the first letter that is new enough for the filter.

    Raises:
        UnknownTopicError: The topic does not exist.
        GroupChangeError: A partition does not exist.
        SarameyaError: The cluster was not reached, or refused a request.
    """
    topic = selection.choice.topic
    metadata = await admin.metadata([topic])
    partitions = resolve([selection.choice], metadata)
    starts = await admin.log_offsets(partitions, LOG_START)
    ends = await admin.log_offsets(partitions, LOG_END, _ISOLATION)
    since = selection.filter.since
    found = await admin.log_offsets(partitions, since) if seek and since is not None else None
    first, last = selection.offsets
    ranges: dict[TopicPartition, LogRange] = {}
    for partition in partitions:
        if partition in starts.found and partition in ends.found:
            end = ends.found[partition] if last is None else min(ends.found[partition], last + 1)
            start = max(starts.found[partition], first)
            if found is not None and partition in found.found:
                # All letters before are older. There is none if all are older.
                at = found.found[partition]
                start = end if at == NO_SUCH_OFFSET else max(start, at)
            ranges[partition] = LogRange(min(start, end), end)
    topic_id = metadata.topics[topic].topic_id
    errors = {partition: reason for offsets in (starts, ends) for partition, reason in offsets.missing.items()}
    return LetterLog(
        "" if topic_id is None else topic_id.hex,
        starts.found,
        ends.found,
        ranges,
        tuple(SarameyaError(f"{partition} cannot be read: {errors[partition]}") for partition in sorted(errors)),
    )


class LettersUpTo:
    """Iterator over the letters of a claim, up to an offset.

    It returns lists of (start, letter). `start` is the end of the letter before: offsets in between have no letter.

    The last offsets of a log may have no messages: markers of transactions, or aborted records. So the position of the
    claim decides about the end.

    Args:
        claim: The claim.
        end: Offset of the first letter that is left out.
        patience: Seconds without any progress before an error is raised.
        done: Letters that are left out.
    """

    def __init__(self, claim: Claim, end: int, patience: float, done: RedriveProgress) -> None:
        self._claim = claim
        self._batches = claim.batches()
        self._end = end
        self._patience = patience
        self._done = done

    def __aiter__(self) -> LettersUpTo:
        return self

    async def __anext__(self) -> list[tuple[int, Letter]]:
        """Return the next letters.

        Raises:
            RequestTimeoutError: Nothing was read for too long.
            SarameyaError: As a claim does.
        """
        claim = self._claim
        position, began = claim.position, trio.current_time()
        while claim.position < self._end:
            with trio.move_on_after(_POLL):
                batch = await self._batches.__anext__()
                return list(self._letters(batch.from_offset, batch.messages))
            if claim.position != position:
                position, began = claim.position, trio.current_time()
            elif trio.current_time() - began >= self._patience:
                raise RequestTimeoutError(
                    f"{claim.topic_partition}: nothing was read for {self._patience:g} s at offset {position}, "
                    f"before the log end {self._end}; has it no leader? (--timeout)"
                )
        raise StopAsyncIteration

    def _letters(self, start: int, messages: Iterable[Message]) -> Iterator[tuple[int, Letter]]:
        for message in messages:
            if message.offset < self._end and message.offset not in self._done:
                yield start, Letter.of(message)
            start = message.offset + 1
