from __future__ import annotations

import attrs
import pytest

from sarameya import CommittedOffset
from sarameya_handlers.landing.errors import (
    ChainError,
    ForeignChainError,
    LostRecordsError,
    MovedCommitError,
    RewoundTableError,
)
from sarameya_handlers.landing.links import ChainKey, Link, Note, Origin
from sarameya_handlers.landing.starting import Begin, Log, begin

KEY = ChainKey("warehouse", "orders", 3)
ORIGIN = Origin(group="billing", topic_id="0123456789abcdef" * 2)
HEAD = Link(key=KEY, number=4, from_offset=50, to_offset=90, attempt="a4", origin=ORIGIN, leader_epoch=2)
LOG = Log(start=0, end=1000)


def noted(offset: int, number: int, attempt: str, sink: str = "warehouse") -> CommittedOffset:
    return CommittedOffset(offset, Note(sink, number, attempt).to_metadata())


@pytest.mark.parametrize(
    ("head", "committed", "offset"),
    [
        (None, None, None),
        (None, CommittedOffset(70), 70),
        (None, CommittedOffset(70, "by a consumer before the sink"), 70),
        (HEAD, None, 90),
        (HEAD, CommittedOffset(90), 90),
        (HEAD, CommittedOffset(60), 90),
        (HEAD, noted(90, 4, "a4"), 90),
        (HEAD, noted(93, 4, "a4"), 93),
        (HEAD, noted(50, 3, "a3"), 90),
        (HEAD, noted(57, 3, "a3"), 90),
    ],
    ids=[
        "nothing anywhere: the policy",
        "a group that has read before",
        "a group with metadata of its own",
        "the commit is missing",
        "a commit without a note at the head",
        "a commit without a note behind the head",
        "both agree",
        "a tail that could not be landed",
        "the commit of the last link was lost",
        "and there was a tail before it",
    ],
)
def test_reading_begins_where_the_table_and_the_commit_say(
    head: Link | None, committed: CommittedOffset | None, offset: int | None
) -> None:
    assert begin(KEY, ORIGIN, head, committed, LOG) == Begin(offset)


@pytest.mark.parametrize(
    ("head", "committed", "error", "says"),
    [
        (None, noted(90, 4, "a4"), RewoundTableError, "the table has no link, but link 4 was landed"),
        (HEAD, noted(140, 5, "a5"), RewoundTableError, "but link 5 was landed"),
        (HEAD, noted(90, 4, "b4"), RewoundTableError, "the group has committed that of b4"),
        (HEAD, CommittedOffset(91), MovedCommitError, "commit stands at 91, beyond it"),
        (HEAD, noted(89, 4, "a4"), MovedCommitError, "commit stands at 89, before its end"),
        (HEAD, noted(90, 4, "a4", sink="lake"), ForeignChainError, "as sink 'lake' already"),
        (None, noted(90, 4, "a4", sink="lake"), ForeignChainError, "as sink 'lake' already"),
        (attrs.evolve(HEAD, origin=Origin(group="audit")), None, ForeignChainError, "landed by group 'audit'"),
        (
            attrs.evolve(HEAD, origin=Origin(group="billing", topic_id="f" * 32)),
            None,
            ForeignChainError,
            "the topic was made anew",
        ),
    ],
)
def test_what_cannot_be_explained_stops(
    head: Link | None, committed: CommittedOffset | None, error: type[ChainError], says: str
) -> None:
    with pytest.raises(error, match=says):
        begin(KEY, ORIGIN, head, committed, LOG)


@pytest.mark.parametrize(
    "log", [Log(start=0, end=89), Log(start=0, end=1000, epoch_end=89)], ids=["shorter", "of another leader"]
)
def test_log_that_was_cut_below_the_head_stops(log: Log) -> None:
    with pytest.raises(LostRecordsError, match="the log was cut at 89"):
        begin(KEY, ORIGIN, HEAD, None, log)


def test_epochs_end_counts_for_a_head_with_an_epoch_only() -> None:
    log = Log(start=0, end=1000, epoch_end=89)
    assert begin(KEY, ORIGIN, attrs.evolve(HEAD, leader_epoch=-1), None, log) == Begin(90)


def test_records_that_are_gone_before_they_landed_stop() -> None:
    with pytest.raises(LostRecordsError, match="the log begins at 91"):
        begin(KEY, ORIGIN, HEAD, None, Log(start=91, end=1000))


def test_records_that_are_gone_are_a_gap_where_that_is_allowed() -> None:
    found = begin(KEY, ORIGIN, HEAD, noted(95, 4, "a4"), Log(start=120, end=1000), may_leave_out=True)
    assert found == Begin(120, gone=(90, 120))


def test_tail_that_could_not_be_landed_may_be_gone() -> None:
    assert begin(KEY, ORIGIN, HEAD, noted(95, 4, "a4"), Log(start=95, end=1000)) == Begin(95)
