"""A handler that reports the events of the Spark sink, so that status pages and the log show all of them."""

from __future__ import annotations

from sarameya import Claim, ConsumerGroupHandler, DeadLettered, Landed, LandingFailed, Session
from sarameya.observe import LandingStarted, TableGrown


class ReportingHandler(ConsumerGroupHandler):
    """A handler without a table that reports landing events."""

    async def setup(self, session: Session) -> None:
        session.notify(TableGrown(table="parquet:landing/orders", what="it has grown"))

    async def consume_claim(self, session: Session, claim: Claim) -> None:
        tp = claim.topic_partition
        async for message in claim:
            begin, end = message.offset, message.offset + 1
            session.notify(LandingStarted(partition=tp, from_offset=begin, to_offset=end))
            session.notify(LandingFailed(partition=tp, from_offset=begin, to_offset=end, cause="not yet"))
            session.notify(DeadLettered(partition=tp, count=1, place="topic orders.dead"))
            session.notify(Landed(partition=tp, from_offset=begin, to_offset=end, rows=1, size_bytes=9, seconds=0.1))
            claim.report.landed = end
            session.mark_message(message)
