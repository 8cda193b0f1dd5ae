"""The progress of redrives, kept as committed offsets of a group without members. Trio.

Kafka forgets the commits of such a group after a week, while letters may stay for longer. A second redrive would then
send all of them again. So these commits say themselves how long they are kept.

Each redrive writes an id of its own, so that two of them at the same time notice each other.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable

from sarameya.error_codes import ErrorCode
from sarameya.errors import ADVICE, SarameyaError, kafka_error
from sarameya.model import CommittedOffset, TopicPartition
from sarameya.net.admin.group_admin import GroupAdmin
from sarameya.service.groups.checks import GroupChangeError, check_inactive
from sarameya.service.letters.log_reader import LetterLog
from sarameya.service.letters.redrive_progress import RedriveProgress

_KEPT = 10 * 365 * 86_400.0
"""Seconds that a commit is kept. Kafka deletes it with its topic."""

_ADVICE = {**ADVICE, ErrorCode.UNKNOWN_MEMBER_ID: "the group has members now: name another one by --group"}


class ProgressChangedError(SarameyaError):
    """A group's commits that changed while letters were sent."""


def group_of(topic: str) -> str:
    """Return the group that keeps the progress for a topic of letters by default."""
    return f"sarameya.letters.{topic}"


class ProgressStore:
    """The progress of redrives of one topic.

    Args:
        admin: Sends the requests.
        group: Id of the group.
        log: The logs of the letters.
    """

    def __init__(self, admin: GroupAdmin, group: str, log: LetterLog) -> None:
        self._admin = admin
        self._group = group
        self._log = log
        self._known: dict[TopicPartition, CommittedOffset] = {}
        self._writer = secrets.token_hex(4)

    async def load(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, RedriveProgress]:
        """Return the progress in these partitions.

        Raises:
            GroupChangeError: The group has members, or an offset after the log's end.
            SarameyaError: The coordinator was not reached, or refused a request.
        """
        check_inactive(await self._admin.describe(self._group))
        self._known = await self._admin.committed(self._group)
        found: dict[TopicPartition, RedriveProgress] = {}
        for partition in partitions:
            commit, end = self._known.get(partition), self._log.ends[partition]
            progress = RedriveProgress.of(commit, self._log.topic_id, self._log.starts[partition])
            if progress.position > end:  # new letters would count as redriven
                raise GroupChangeError(
                    f"group {self._group!r} has committed offset {progress.position} for {partition}, whose log ends "
                    f"at {end}: the log has lost letters, or is a new one. Name another --group; or set the offset by "
                    "`sarameya groups offsets reset`"
                )
            found[partition] = progress
        return found

    def fits(self, progress: RedriveProgress) -> bool:
        """Return whether the progress can be saved."""
        return progress.fits(self._log.topic_id, self._writer)

    async def save(self, partition: TopicPartition, progress: RedriveProgress) -> None:
        """Commit the progress in a partition.

        Raises:
            ProgressChangedError: Another redrive is running.
            SarameyaError: The coordinator was not reached, or refused a request.
        """
        now, known = (await self._admin.committed(self._group)).get(partition), self._known.get(partition)
        if _content(now) != _content(known):
            raise ProgressChangedError(
                f"group {self._group!r}: the commit for {partition} has changed while letters were sent: is another "
                "redrive running? Run the command again when it has ended"
            )
        commit = progress.commit(self._log.topic_id, self._writer)
        codes = await self._admin.commit(self._group, {partition: commit}, keep_for=_KEPT)
        if code := codes[partition]:
            raise kafka_error(code, f"commit for group {self._group!r}, {partition}", advice=_ADVICE)
        self._known[partition] = commit


def _content(commit: CommittedOffset | None) -> tuple[int, str] | None:
    return None if commit is None else (commit.offset, commit.metadata)
