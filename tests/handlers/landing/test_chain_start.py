from __future__ import annotations

from contextlib import nullcontext

import attrs
import pytest

from sarameya import CommittedOffset
from sarameya_handlers.landing.chain_start import MOVED, ChainStart, Gap, Log, choose_chain_start
from sarameya_handlers.landing.errors import (
    ChainError,
    ForeignChainError,
    LostRecordsError,
    MovedCommitError,
    RewoundTableError,
)
from sarameya_handlers.landing.links import ChainKey, CommitNote, Link, Origin

KEY = ChainKey("warehouse", "orders", 3)
ORIGIN = Origin(group="billing", topic_id="0123456789abcdef" * 2)
HEAD = Link(key=KEY, number=4, from_offset=50, to_offset=90, attempt="a4", origin=ORIGIN, leader_epoch=2)
LOG = Log(start=0, end=1000)


def noted(offset: int, number: int, attempt: str, sink: str = "warehouse") -> CommittedOffset:
    return CommittedOffset(offset, CommitNote(sink, number, attempt).to_metadata())


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
        "a commit without a note before the head",
        "both agree",
        "a tail that could not be landed",
        "the commit of the last link was lost",
        "the commit of the last link was lost, with a tail before it",
    ],
)
def test_start_offset_follows_the_head_and_the_commit(
    head: Link | None, committed: CommittedOffset | None, offset: int | None
) -> None:
    assert choose_chain_start(KEY, ORIGIN, head, committed, LOG) == ChainStart(offset)


@pytest.mark.parametrize(
    ("head", "committed", "error", "message"),
    [
        (None, noted(90, 4, "a4"), RewoundTableError, "the table has no link, but the group has committed link 4"),
        (HEAD, noted(140, 5, "a5"), RewoundTableError, "but the group has committed link 5"),
        (HEAD, noted(90, 4, "b4"), RewoundTableError, "the group has committed attempt b4"),
        (HEAD, CommittedOffset(91), MovedCommitError, "committed offset is 91, beyond the link's end"),
        (HEAD, noted(89, 4, "a4"), MovedCommitError, "committed offset is 89, before the link's end"),
        (HEAD, noted(90, 4, "a4", sink="lake"), ForeignChainError, "already lands this topic with the name 'lake'"),
        (None, noted(90, 4, "a4", sink="lake"), ForeignChainError, "already lands this topic with the name 'lake'"),
        (
            attrs.evolve(HEAD, origin=Origin(group="audit")),
            None,
            ForeignChainError,
            "^the table's chain warehouse/orders-3 belongs to group 'audit'",
        ),
        (
            attrs.evolve(HEAD, origin=Origin(group="billing", topic_id="f" * 32)),
            None,
            ForeignChainError,
            "the topic was recreated",
        ),
    ],
)
def test_contradicting_commit_or_table_raises(
    head: Link | None, committed: CommittedOffset | None, error: type[ChainError], message: str
) -> None:
    with pytest.raises(error, match=message):
        choose_chain_start(KEY, ORIGIN, head, committed, LOG)


@pytest.mark.parametrize(
    "log",
    [Log(start=0, end=89), Log(start=0, end=1000, epoch_end=89)],
    ids=["shorter", "end of the epoch before the head"],
)
def test_log_truncated_before_the_head_raises(log: Log) -> None:
    with pytest.raises(LostRecordsError, match="log was truncated at 89"):
        choose_chain_start(KEY, ORIGIN, HEAD, None, log)


def test_epoch_end_is_ignored_for_a_head_without_an_epoch() -> None:
    log = Log(start=0, end=1000, epoch_end=89)
    assert choose_chain_start(KEY, ORIGIN, attrs.evolve(HEAD, leader_epoch=-1), None, log) == ChainStart(90)


def test_records_removed_before_they_landed_raise() -> None:
    with pytest.raises(LostRecordsError, match="the log starts at 91"):
        choose_chain_start(KEY, ORIGIN, HEAD, None, Log(start=91, end=1000))


def test_removed_records_are_a_gap_if_allowed() -> None:
    found = choose_chain_start(KEY, ORIGIN, HEAD, noted(95, 4, "a4"), Log(start=120, end=1000), may_leave_out=True)
    assert found == ChainStart(120, Gap(90, 120, "retention has removed them before they were read"))


@pytest.mark.parametrize(
    ("committed", "log", "found"),
    [
        (CommittedOffset(140), LOG, ChainStart(140, Gap(90, 140, MOVED))),
        (
            CommittedOffset(91, "an admin's"),
            LOG,
            ChainStart(91, Gap(90, 91, MOVED)),
        ),
        (
            CommittedOffset(140),
            Log(start=140, end=140),
            ChainStart(140, Gap(90, 140, MOVED)),
        ),
        (
            CommittedOffset(140),
            Log(start=141, end=1000),
            ChainStart(
                141,
                Gap(
                    90,
                    141,
                    "the group's commit was moved beyond them; from 140 on, retention has removed them before they "
                    "were read",
                ),
            ),
        ),
        (CommittedOffset(90), LOG, ChainStart(90)),
        (CommittedOffset(60), LOG, ChainStart(90)),
        (noted(93, 4, "a4"), LOG, ChainStart(93)),
    ],
    ids=[
        "moved forward",
        "moved by one, with metadata of its own",
        "moved to the end of a log that starts there",
        "moved, and retention removed more",
        "moved to the head: no gap",
        "moved back: no gap",
        "a tail that could not be landed",
    ],
)
def test_offsets_skipped_by_the_commit_are_a_gap_if_allowed(
    committed: CommittedOffset, log: Log, found: ChainStart
) -> None:
    assert choose_chain_start(KEY, ORIGIN, HEAD, committed, log, may_leave_out=True) == found


@pytest.mark.parametrize(
    ("head", "committed", "log", "error", "message"),
    [
        (HEAD, noted(140, 5, "a5"), LOG, RewoundTableError, "but the group has committed link 5"),
        (HEAD, noted(140, 4, "b4"), LOG, RewoundTableError, "the group has committed attempt b4"),
        (None, noted(140, 4, "a4"), LOG, RewoundTableError, "the table has no link"),
        (HEAD, noted(89, 4, "a4"), LOG, MovedCommitError, "before the link's end"),
        (HEAD, CommittedOffset(1001), LOG, MovedCommitError, "the log ends at 1000, and the next records would"),
        (HEAD, CommittedOffset(140), Log(start=0, end=150, epoch_end=89), LostRecordsError, "log was truncated at 89"),
    ],
    ids=[
        "a restored table",
        "another table",
        "a dropped table",
        "moved back, same link number",
        "moved beyond the log",
        "a truncated log",
    ],
)
def test_other_contradictions_raise_although_gaps_are_allowed(
    head: Link | None, committed: CommittedOffset, log: Log, error: type[ChainError], message: str
) -> None:
    with pytest.raises(error, match=message):
        choose_chain_start(KEY, ORIGIN, head, committed, log, may_leave_out=True)


def test_error_of_a_moved_commit_names_the_remedy() -> None:
    with pytest.raises(MovedCommitError, match=r"leave them out on purpose \(on_missing = 'leave_out'\)"):
        choose_chain_start(KEY, ORIGIN, HEAD, CommittedOffset(91), LOG)


def test_tail_of_refused_records_may_be_removed_from_the_log() -> None:
    assert choose_chain_start(KEY, ORIGIN, HEAD, noted(95, 4, "a4"), Log(start=95, end=1000)) == ChainStart(95)


def test_error_of_a_foreign_chain_names_the_group_first() -> None:
    """Another sink name is no remedy for a wrong group: everything would land twice."""
    with pytest.raises(ForeignChainError) as refused:
        choose_chain_start(KEY, Origin(group="audit"), HEAD, None, LOG)
    text = str(refused.value)
    assert text.index("belongs to group 'billing'") < text.index("use that group") < text.index("Another `name`")


def test_chain_of_another_cluster_is_refused_without_topic_ids() -> None:
    here, there = (Origin(group="billing", cluster_id=cluster) for cluster in ("here", "there"))
    with pytest.raises(ForeignChainError, match="of cluster there, and this is cluster here"):
        choose_chain_start(KEY, here, attrs.evolve(HEAD, origin=there), None, LOG)
    same = attrs.evolve(there, topic_id=ORIGIN.topic_id)
    named = attrs.evolve(here, topic_id=ORIGIN.topic_id)
    assert choose_chain_start(KEY, named, attrs.evolve(HEAD, origin=same), None, LOG)


@pytest.mark.parametrize(("offset", "is_refused"), [(29, True), (30, False), (60, False)])
def test_fault_53_commit_before_the_start_of_the_chain_is_refused(offset: int, is_refused: bool) -> None:
    """Records in between would never land. A chain without a recorded start behaves as before."""
    head = attrs.evolve(HEAD, origin=attrs.evolve(ORIGIN, begin=30))
    assert choose_chain_start(KEY, ORIGIN, HEAD, CommittedOffset(offset), LOG) == ChainStart(90)
    with pytest.raises(MovedCommitError, match=r"\[29, 30\) would never land") if is_refused else nullcontext():
        assert choose_chain_start(KEY, ORIGIN, head, CommittedOffset(offset), LOG) == ChainStart(90)
