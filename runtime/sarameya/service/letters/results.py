"""Requests and results of `sarameya letters list` and `show`. Trio."""

from __future__ import annotations

from collections.abc import Callable

from sarameya.errors import RecordError, SarameyaError
from sarameya.handling.letters import Letter
from sarameya.service.letters.letter_text import letter_json, letter_text
from sarameya.service.letters.log_reader import Clients, LettersUpTo, Selection, look_up
from sarameya.service.letters.progress_store import ProgressStore
from sarameya.service.letters.redrive_progress import RedriveProgress
from sarameya.service.letters.summary import LetterSummary
from sarameya.service.output.command_result import CommandResult
from sarameya.service.output.progress_display import QuietSteps, Steps

Take = Callable[[Letter], bool]
"""Called with each letter. Returns False to stop."""


async def list_letters(
    clients: Clients, selection: Selection, *, pending_of: str | None = None, steps: Steps | None = None
) -> CommandResult:
    """Count the selected letters by kind.

    Args:
        clients: The clients.
        selection: The letters.
        pending_of: Group that keeps the progress of redrives: letters that were sent back are left out.
        steps: Shows the progress.
    """
    summary = LetterSummary(selection.choice.topic)

    def count(letter: Letter) -> bool:
        summary.add(letter)
        return True

    errors = await _read(clients, selection, pending_of, count, steps or QuietSteps())
    return CommandResult(summary.document(), summary.text(), errors)


async def show(
    clients: Clients,
    selection: Selection,
    emit: Callable[[str], bool],
    *,
    as_json: bool = False,
    with_stack: bool = False,
    limit: int | None = None,
    pending_of: str | None = None,
) -> tuple[SarameyaError, ...]:
    """Emit the selected letters one after the other, by partition and offset.

    Args:
        clients: The clients.
        selection: The letters.
        emit: Called with the text of each letter. Returns False to stop.
        as_json: The text is a line of JSON.
        with_stack: The text has the stack of the exception (JSON always has it).
        limit: Maximum number of letters.
        pending_of: Group that keeps the progress of redrives: letters that were sent back are left out.

    Returns:
        The errors of partitions that cannot be read.
    """
    shown = 0

    def show_one(letter: Letter) -> bool:
        nonlocal shown
        text = letter_json(letter) if as_json else ("\n" * bool(shown)) + letter_text(letter, with_stack=with_stack)
        shown += 1
        return emit(f"{text}\n") and shown != limit

    errors = await _read(clients, selection, pending_of, show_one, QuietSteps())
    if not (shown or as_json or errors):
        emit("no letters\n")
    return errors


async def _read(
    clients: Clients, selection: Selection, pending_of: str | None, take: Take, steps: Steps
) -> tuple[SarameyaError, ...]:
    """Call `take` with the selected letters, by partition and offset. Return the errors of unreadable partitions."""
    async with clients.admin() as admin:
        log = await look_up(admin, selection)
        progress = {partition: RedriveProgress(0) for partition in log.ranges}
        if pending_of is not None:
            progress = await ProgressStore(admin, pending_of, log).load(log.ranges)
    errors = list(log.errors)
    async with clients.consumer() as consumer:
        for partition, log_range in log.ranges.items():
            done = progress[partition]
            start, end = max(log_range.start, done.position), log_range.end
            if start >= end:
                continue
            steps(f"reading {partition}", end - start)
            try:
                async with consumer.consume_partition(*partition, start) as claim:
                    async for letters in LettersUpTo(claim, end, clients.config.request_timeout, done):
                        for _, letter in letters:
                            if selection.filter.matches(letter) and not take(letter):
                                return tuple(errors)
                        steps.update(claim.position - start)
            except RecordError as error:  # other partitions may be readable
                errors.append(error)
    return tuple(errors)
