"""Exit code 0 only if all work was finished."""

from __future__ import annotations

import pytest

from sarameya.model import TopicPartition
from sarameya.observe import ClaimCancelled, CommitFailed, LeaveFailed
from sarameya.service.output.error_report import ExitCode, exit_code
from sarameya.service.process.shutdown_check import ShutdownCheck, UnfinishedError
from sarameya.service.process.signals import Stop

CANCELLED = ClaimCancelled(TopicPartition("orders", 2), 8.0)


async def test_claim_cancelled_while_stopping_is_a_reported_failure() -> None:
    stop = Stop()
    unfinished = ShutdownCheck(stop, 10.0)
    stop.request("SIGTERM")
    unfinished.observe(CANCELLED)
    unfinished.observe(CommitFailed("g", "no answer"))
    unfinished.observe(LeaveFailed("g", "nobody there"))
    with pytest.raises(UnfinishedError) as caught:
        unfinished.check()
    assert str(caught.value) == (
        "stopped, but orders-2 was not done; the last commit failed (no answer); "
        "the group was not left (nobody there) within close_timeout (10 s); "
        "messages without a commit are consumed again next time"
    )
    assert exit_code(caught.value) is ExitCode.FAILURE


async def test_claim_cancelled_before_the_stop_is_no_failure() -> None:
    stop = Stop()
    unfinished = ShutdownCheck(stop, 10.0)
    unfinished.observe(CANCELLED)
    stop.request("SIGTERM")
    unfinished.check()
