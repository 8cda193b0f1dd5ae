"""Commits of two kinds take turns."""

from __future__ import annotations

import threading
from pathlib import Path

from sarameya_handlers.spark.delta.commit_turns import CommitTurns, Kind, turns_of


def entered(turns: CommitTurns, kind: Kind) -> tuple[threading.Thread, threading.Event]:
    """A thread that waits for its turn, and what it sets once it has it."""
    has_it = threading.Event()

    def wait() -> None:
        with turns.turn(kind):
            has_it.set()

    thread = threading.Thread(target=wait)
    thread.start()
    return thread, has_it


def test_any_number_of_one_kind_is_at_it_and_the_other_waits_for_all() -> None:
    turns = CommitTurns()
    with turns.turn(Kind.SPARK):
        with turns.turn(Kind.SPARK):
            thread, has_it = entered(turns, Kind.ADOPTION)
            assert not has_it.wait(0.05)
        assert not has_it.wait(0.05)
    assert has_it.wait(10)
    thread.join()


def test_a_table_has_one_set_of_turns() -> None:
    assert turns_of(Path("/a")) is turns_of(Path("/a"))
    assert turns_of(Path("/a")) is not turns_of(Path("/b"))
