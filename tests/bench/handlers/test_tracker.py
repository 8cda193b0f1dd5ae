"""Loop that measures the completion tracker."""

from __future__ import annotations

from bench.handlers.tracker import COMMIT_EVERY, track


def test_loop_commits_with_metadata() -> None:
    seconds, longest = track(2 * COMMIT_EVERY)

    assert seconds > 0
    assert longest > 0
