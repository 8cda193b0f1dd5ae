"""The members' handler: the Spark sink, which tells on standard output what it is assigned."""

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
    """All that a member has, once that has changed."""

    pid: int
    partitions: int
    at: float
    """On the monotonic clock."""

    @classmethod
    def of_json(cls, text: bytes) -> Line:
        return cls(**json.loads(text))


class TellingSink(SparkSink):
    async def setup(self, session: Session) -> None:
        await super().setup(session)
        self._owned: set[TopicPartition] = set()

    async def partitions_assigned(self, session: Session, partitions: Sequence[TopicPartition]) -> None:
        await super().partitions_assigned(session, partitions)
        self._owned |= set(partitions)
        self._tell()

    async def partitions_revoked(self, session: Session, partitions: Sequence[TopicPartition]) -> None:
        await super().partitions_revoked(session, partitions)
        self._owned -= set(partitions)
        self._tell()

    async def partitions_lost(self, session: Session, partitions: Sequence[TopicPartition]) -> None:
        await super().partitions_lost(session, partitions)
        self._owned -= set(partitions)
        self._tell()

    def _tell(self) -> None:
        line = Line(os.getpid(), len(self._owned), time.monotonic())
        print(json.dumps(attrs.asdict(line)), flush=True)
