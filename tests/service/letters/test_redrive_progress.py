"""Progress of redrives, compared with a plain set of offsets, and stored as the metadata of a commit."""

from __future__ import annotations

import os

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sarameya.model import CommittedOffset
from sarameya.protocol.completion_tracker import METADATA_BYTES
from sarameya.service.letters.redrive_progress import RedriveProgress

SOAK = int(os.environ.get("SARAMEYA_SOAK", "1"))
END = 60
ID, OTHER_ID = "ab" * 16, "cd" * 16
WRITER = "0a1b2c3d"
OFFSETS = st.integers(0, END)
RANGES = st.lists(st.tuples(OFFSETS, OFFSETS), max_size=12)


def progress_of(ranges: list[tuple[int, int]]) -> tuple[RedriveProgress, set[int]]:
    progress, done = RedriveProgress(0), set[int]()
    for start, end in ranges:
        progress.add(start, end)
        done.update(range(start, end))
    return progress, done


def offsets_of(progress: RedriveProgress) -> set[int]:
    return {offset for offset in range(END + 2) if offset in progress}


@settings(max_examples=200 * SOAK)
@given(RANGES, OFFSETS, OFFSETS)
def test_progress_is_the_set_of_offsets_that_were_added(ranges: list[tuple[int, int]], start: int, end: int) -> None:
    progress, done = progress_of(ranges)
    assert offsets_of(progress) == done
    assert progress.position == min(set(range(END + 2)) - done)
    assert progress.done_between(start, end) == len(done & set(range(start, end)))
    edges = [progress.position, *(edge for run in progress.runs for edge in run)]
    assert edges == sorted(set(edges)), "runs touch or overlap"
    copy = progress.copy()
    copy.add(0, END)
    assert offsets_of(progress) == done


@settings(max_examples=200 * SOAK)
@given(RANGES, OFFSETS, st.sampled_from(["", ID]))
def test_commit_has_the_whole_progress(ranges: list[tuple[int, int]], log_start: int, topic_id: str) -> None:
    progress, done = progress_of(ranges)
    commit = progress.commit(topic_id, WRITER)
    assert commit.offset == progress.position
    assert offsets_of(RedriveProgress.of(commit, topic_id, 0)) == done
    assert offsets_of(RedriveProgress.of(commit, topic_id, log_start)) == done | set(range(log_start))


def test_nothing_is_done_without_a_commit() -> None:
    assert offsets_of(RedriveProgress.of(None, ID, 0)) == set()
    assert offsets_of(RedriveProgress.of(None, ID, 3)) == {0, 1, 2}


def test_commit_of_a_deleted_topic_is_ignored() -> None:
    progress, _ = progress_of([(0, 5), (7, 9)])
    assert offsets_of(RedriveProgress.of(progress.commit(ID, WRITER), OTHER_ID, 0)) == set()


@pytest.mark.parametrize("metadata", ["", "a note", "sarameya-redriven-1:", "sarameya-redriven-1:!", "sarameya-x:AA=="])
def test_commit_with_other_metadata_counts_by_its_offset(metadata: str) -> None:
    """Other commands commit too, for example `sarameya groups offsets reset`."""
    assert offsets_of(RedriveProgress.of(CommittedOffset(4, metadata), ID, 0)) == {0, 1, 2, 3}


def test_metadata_of_another_offset_is_ignored() -> None:
    progress, _ = progress_of([(0, 5), (7, 9)])
    moved = CommittedOffset(2, progress.commit(ID, WRITER).metadata)
    assert offsets_of(RedriveProgress.of(moved, ID, 0)) == {0, 1}


@given(st.data())
def test_damaged_metadata_never_fails(data: st.DataObject) -> None:
    progress, _ = progress_of([(0, 5), (7, 9), (20, 40)])
    text = progress.commit(ID, WRITER).metadata
    at = data.draw(st.integers(0, len(text)))
    damaged = text[:at] + data.draw(st.text(max_size=3)) + text[at + data.draw(st.integers(0, 3)) :]
    assert RedriveProgress.of(CommittedOffset(5, damaged), ID, 0).position in (0, 5)


def test_progress_fits_until_there_are_too_many_gaps() -> None:
    progress, number = RedriveProgress(0), 0
    while progress.fits(ID, WRITER):
        number += 1
        progress.add(10**9 + 3 * number, 10**9 + 3 * number + 1)
    assert number > 1000
    assert len(progress.commit(ID, WRITER).metadata) > METADATA_BYTES
    progress.add(10**9 + 3, 10**9 + 20)
    assert progress.fits(ID, WRITER)
    progress.add(0, 2**62)
    assert progress.commit(ID, WRITER).offset == 2**62
