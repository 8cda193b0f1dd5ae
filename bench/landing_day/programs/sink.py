"""Handler of the members: the Spark sink. It also prints how many partitions the member owns."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Sequence

import attrs

from sarameya import Session, TopicPartition
from sarameya_handlers import SparkSink


@attrs.frozen
class Line:
    """Number of partitions that a member owns, printed after each change."""

    pid: int
    partitions: int
    at: float
    """Time of the change, in seconds of the monotonic clock."""

    @classmethod
    def of_json(cls, text: bytes) -> Line:
        return cls(**json.loads(text))


class ReportingSink(SparkSink):
    """A Spark sink that prints the number of owned partitions after each change."""

    async def setup(self, session: Session) -> None:
        await super().setup(session)
        self._owned: set[TopicPartition] = set()

    async def partitions_assigned(self, session: Session, partitions: Sequence[TopicPartition]) -> None:
        await super().partitions_assigned(session, partitions)
        self._owned |= set(partitions)
        self._report()

    async def partitions_revoked(self, session: Session, partitions: Sequence[TopicPartition]) -> None:
        await super().partitions_revoked(session, partitions)
        self._owned -= set(partitions)
        self._report()

    async def partitions_lost(self, session: Session, partitions: Sequence[TopicPartition]) -> None:
        await super().partitions_lost(session, partitions)
        self._owned -= set(partitions)
        self._report()

    def _report(self) -> None:
        line = Line(os.getpid(), len(self._owned), time.monotonic())
        print(json.dumps(attrs.asdict(line)), flush=True)
