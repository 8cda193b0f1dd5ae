"""`sarameya letters redrive`: reads letters, sends them back, and keeps the progress. Trio.

Letters of a partition are sent in their order, in chunks. The progress is committed after each chunk, so that a redrive
that was interrupted repeats one chunk at most, and loses nothing. A dry run is the same without sending and committing.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from typing import NamedTuple

import attrs

from sarameya.error_codes import ErrorCode
from sarameya.errors import KafkaError, RecordError, SarameyaError
from sarameya.group.standalone import Consumer
from sarameya.handling.letters import Letter
from sarameya.model import LogRange, TopicPartition
from sarameya.net.admin.group_admin import GroupAdmin
from sarameya.producer.producer import Producer
from sarameya.producer.record import ProducerRecord
from sarameya.producer.verdicts import refusal
from sarameya.service.letters.log_reader import Clients, LettersUpTo, Selection, look_up
from sarameya.service.letters.progress_store import ProgressStore
from sarameya.service.letters.redrive_progress import RedriveProgress
from sarameya.service.letters.redrive_report import NotSentError, RedriveReport
from sarameya.service.letters.redrive_rules import RedriveRules, Refusal
from sarameya.service.output.command_result import CommandResult
from sarameya.service.output.progress_display import QuietSteps, Steps

CHUNK_LETTERS = 500
CHUNK_BYTES = 4 * 2**20

_ABOUT_RECORD = frozenset(
    {
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.RECORD_LIST_TOO_LARGE,
        ErrorCode.INVALID_RECORD,
        ErrorCode.INVALID_TIMESTAMP,
    }
)
"""Error codes with which a topic refuses one record. It may accept others."""


@attrs.frozen(slots=True, kw_only=True)
class RedriveOptions:
    """Arguments of the command.

    Attributes:
        group: Group that keeps the progress.
        rules: Which letters are sent, and where to.
        limit: Maximum number of letters to send; None: no limit.
        skip_others: Letters that the filters leave out count as done.
        execute: Send the letters.
    """

    group: str
    rules: RedriveRules
    limit: int | None = None
    skip_others: bool = False
    execute: bool = False


async def redrive(
    clients: Clients, selection: Selection, options: RedriveOptions, steps: Steps | None = None
) -> CommandResult:
    """Send letters back with `execute`; else show what would be sent.

    The result has an error for each kind of letters that must not be sent, and the error that ended the redrive.

    Raises:
        SarameyaError: The letters, the progress or the target cannot be looked up.
    """
    steps = steps or QuietSteps()
    report = RedriveReport(selection.choice.topic, options.group, options.execute)
    async with clients.admin() as admin:
        log = await look_up(admin, selection, seek=not options.skip_others)
        store = ProgressStore(admin, options.group, log)
        progress = await store.load(log.ranges)
        targets = _Targets(admin)
        if options.rules.to is not None and isinstance(found := await targets.partitions(options.rules.to), KafkaError):
            raise found
        report.errors += log.errors
        report.done_offsets = sum(progress[tp].done_between(r.start, r.end) for tp, r in log.ranges.items())
        async with clients.consumer() as consumer, clients.producer() if options.execute else nullcontext() as producer:
            run = _Redrive(clients, selection, options, report, store, targets, consumer, producer, steps)
            for partition, log_range in log.ranges.items():
                try:
                    await run.partition(partition, log_range, progress[partition])
                except (RecordError, _ProgressFullError) as error:
                    report.errors.append(error)
                except SarameyaError as error:  # letters of other partitions would meet it, too
                    report.errors.append(error)
                    break
    return report.result()


class _ProgressFullError(SarameyaError):
    """Letters that were sent leave too many gaps to be remembered."""

    permanent = True


class _Targets:
    """Numbers of partitions of the topics that letters are sent to."""

    def __init__(self, admin: GroupAdmin) -> None:
        self._admin = admin
        self._found: dict[str, int | KafkaError] = {}

    async def partitions(self, topic: str) -> int | KafkaError:
        """Return the number of partitions of a topic, or the reason why it cannot be written to."""
        if topic not in self._found:
            metadata = await self._admin.metadata([topic])
            code = metadata.missing([topic]).get(topic)
            self._found[topic] = refusal(code, f"topic {topic!r}") if code else len(metadata.topics[topic].partitions)
        return self._found[topic]


class _ToSend(NamedTuple):
    """A letter, and the record to send."""

    start: int
    """End of the letter before. Offsets in between have no letter: they are done with this one."""
    letter: Letter
    record: ProducerRecord


@attrs.define(slots=True)
class _Redrive:
    """The state of a redrive."""

    clients: Clients
    selection: Selection
    options: RedriveOptions
    report: RedriveReport
    store: ProgressStore
    targets: _Targets
    consumer: Consumer
    producer: Producer | None
    steps: Steps

    async def partition(self, partition: TopicPartition, log_range: LogRange, progress: RedriveProgress) -> None:
        """Redrive the letters of one partition."""
        first, end = max(log_range.start, progress.position), log_range.end
        if first >= end or self._left(0) == 0:
            return
        if self.producer is not None:  # an error of the group must come before the first letter, not after it
            await self.store.save(partition, progress)
        self.steps(f"reading {partition}", end - first)
        chunk: list[_ToSend] = []
        size = 0
        try:
            async with self.consumer.consume_partition(*partition, first) as claim:
                async for letters in LettersUpTo(claim, end, self.clients.config.request_timeout, progress):
                    for start, letter in letters:
                        if (record := await self._record(start, letter, progress)) is None:
                            continue
                        chunk.append(_ToSend(start, letter, record))
                        size += len(record.key or b"") + len(record.value or b"")
                        if len(chunk) >= CHUNK_LETTERS or size >= CHUNK_BYTES or self._left(len(chunk)) == 0:
                            await self._finish(partition, chunk, progress)
                            chunk, size = [], 0
                            if self._left(0) == 0:
                                return
                    self.steps.update(claim.position - first)
        except RecordError:  # the letters before it can be sent
            await self._finish(partition, chunk, progress)
            raise
        await self._finish(partition, chunk, progress)

    def _left(self, pending: int) -> int | None:
        """Return how many more letters may be sent; None without a limit."""
        limit = self.options.limit
        return None if limit is None else limit - self.report.letters - pending

    async def _record(self, start: int, letter: Letter, progress: RedriveProgress) -> ProducerRecord | None:
        """Return the record to send; None if the letter is left out or refused."""
        rules = self.options.rules
        if not self.selection.filter.matches(letter):
            self.report.not_matching += 1
            if self.options.skip_others:
                progress.add(start, letter.message.offset + 1)
            return None
        refused = rules.refusal(letter)
        if refused is None:
            partitions = await self.targets.partitions(rules.target(letter))
            if not isinstance(partitions, KafkaError):
                return rules.record(letter, partitions, self.clients.wall_clock())
            refused = Refusal(str(partitions), partitions.permanent)
        self.report.refuse(letter, refused)
        return None

    async def _finish(self, partition: TopicPartition, chunk: Sequence[_ToSend], progress: RedriveProgress) -> None:
        """Send a chunk, and commit the progress.

        Raises:
            NotSentError: A letter was not sent, for a reason that others would meet, too. The progress contains the
                letters that were sent.
        """
        after = progress.copy()
        for start, letter, _ in chunk:
            after.add(start, letter.message.offset + 1)
        if not self.store.fits(after):
            raise _ProgressFullError(
                f"{partition}: further letters are not sent, since the commit of group {self.options.group!r} has no "
                "room to record them: the filters leave too many gaps. Send the letters in the gaps, too; or give the "
                "filters a --group of their own, with --skip-others"
            )
        outcomes: Sequence[object] = [None] * len(chunk)
        if self.producer is not None:
            outcomes = await self.producer.send_each([record for _, _, record in chunk])
        failure: NotSentError | None = None
        for (start, letter, record), outcome in zip(chunk, outcomes, strict=True):
            if not isinstance(outcome, SarameyaError):
                progress.add(start, letter.message.offset + 1)
                self.report.add(letter, record)
            elif isinstance(outcome, KafkaError) and outcome.code in _ABOUT_RECORD:
                self.report.refuse(letter, Refusal(str(outcome)))
            elif failure is None:
                where = f"{partition} offset {letter.message.offset}"
                failure = NotSentError(f"the letter at {where} was not sent: {outcome}", outcome.permanent)
        if self.producer is not None and (chunk or self.options.skip_others):
            await self.store.save(partition, progress)
        if failure is not None:
            raise failure
