"""Where claims begin. In a session: the handler's word, else the group's commit, else the policy. Without a group
protocol: as the user chose, who may choose the group's commit, too."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, TypeAlias

import attrs

from sarameya.config import Config
from sarameya.consumer.offset_lookup import Lookup
from sarameya.errors import HandlerError, NoCommittedOffsetError
from sarameya.group.handler import ConsumerGroupHandler
from sarameya.group.handler_methods import awaited
from sarameya.group.offset_manager import OffsetManager
from sarameya.model import NO_LEADER_EPOCH, CommittedOffset, TopicPartition, is_offset
from sarameya.net.log_offsets import LogOffset
from sarameya.offset_policy import OffsetPolicy, describe_policy, parse_policy

StartOffset: TypeAlias = int | OffsetPolicy | Literal["committed"]
"""Where to begin: at an offset, where a policy says, or where the group's commit does."""


@attrs.frozen(slots=True)
class Start:
    """`why` is `handler`, `committed`, `added` (while running), `given` (by the user without a group protocol), or the
    policy that chose the offset, as text."""

    offset: int
    why: str
    leader_epoch: int = NO_LEADER_EPOCH
    """Of what stands before the offset, where that is known (KIP-320)."""
    told_in: int = NO_LEADER_EPOCH
    """The epoch of the leader which has just told the offset, if one has."""

    @classmethod
    def at(cls, place: LogOffset, why: str) -> Start:
        """Where a leader has just been asked."""
        return cls(place.offset, why, place.leader_epoch, place.told_in)


async def find_starts(
    committed: Mapping[TopicPartition, CommittedOffset | None],
    handler: ConsumerGroupHandler,
    offsets: OffsetManager,
    lookup: Lookup,
    config: Config,
    is_new: Callable[[TopicPartition], bool],
    answers: dict[TopicPartition, int | CommittedOffset | None],
    begin: Callable[[Mapping[TopicPartition, Start]], None],
) -> None:
    """The start of each partition in `committed`; where nothing is and `is_new` (it was added while we ran), its very
    beginning. `begin` is told of them as they become known: none waits for another one's leader. `answers` has what
    the handler has said, and gets what it says. Raises what `start_offset` raises, HandlerError if it returns no
    offset, NoCommittedOffsetError by the policy, CommitError if the generation is over meanwhile."""
    known: dict[TopicPartition, Start] = {}
    policies: dict[TopicPartition, OffsetPolicy] = {}
    for partition, commit in committed.items():
        if partition not in answers:
            answers[partition] = await awaited(handler.start_offset, partition, commit)
        if (chosen := answers[partition]) is not None:
            known[partition] = _told(partition, chosen)
            if isinstance(chosen, CommittedOffset) and chosen.metadata:
                offsets.ledger.note(partition)
        elif commit is not None:
            known[partition] = Start(commit.offset, "committed", commit.leader_epoch)
        else:
            policies[partition] = "oldest" if is_new(partition) else config.offset_initial_of(partition.topic)
    _check(policies, offsets.group)
    if known or not policies:  # a member's streams begin with its first assignment, though it be empty
        begin(known)

    async def take(found: Mapping[TopicPartition, LogOffset]) -> None:
        # Committed at once, so that a rejoin before the first mark does not resolve it anew and skip.
        for partition, place in found.items():
            offsets.ledger.mark(partition, CommittedOffset(place.offset, leader_epoch=place.leader_epoch))
        # These and no others: what else is marked may not be durable yet, where the handler commits itself.
        await offsets.commit(found)
        begin(
            {
                tp: Start.at(place, "added" if is_new(tp) else describe_policy(policies[tp]))
                for tp, place in found.items()
            }
        )

    await lookup.find_each(policies, take)


def _told(partition: TopicPartition, chosen: object) -> Start:
    """Where the handler says. Raises HandlerError for what is no offset."""
    place = chosen if isinstance(chosen, CommittedOffset) else CommittedOffset(chosen)  # type: ignore[arg-type]
    epoch = place.leader_epoch
    if not is_offset(place.offset) or isinstance(epoch, bool) or not isinstance(epoch, int) or epoch < NO_LEADER_EPOCH:
        raise HandlerError(
            f"start_offset({partition}) returned {chosen!r}: must be an offset (an int), a CommittedOffset or None"
        )
    return Start(place.offset, "handler", epoch)


def parse_start(value: Any) -> StartOffset:
    """Where `value` says to begin. Raises ValueError."""
    if value == "committed":
        return "committed"
    if isinstance(value, int):
        if not is_offset(value):
            raise ValueError("must be an offset: an int of at least 0")
        return value
    return parse_policy(value)


def _check(policies: Mapping[TopicPartition, OffsetPolicy], group: str) -> None:
    if lacking := tuple(partition for partition, policy in policies.items() if policy == "fail"):
        raise NoCommittedOffsetError(group, lacking)


async def find_chosen_starts(
    chosen: Mapping[TopicPartition, StartOffset], offsets: OffsetManager | None, lookup: Lookup, config: Config
) -> dict[TopicPartition, Start]:
    """The start of each partition, as it was `chosen`; with `offsets` the group's commits are in its ledger then.

    `committed` needs `offsets`; where nothing is, `Config.offset_initial` decides and is committed at once. Raises
    NoCommittedOffsetError by that, CommitError where the group takes no commits.
    """
    committed = await _take_up(offsets, chosen, config) if offsets is not None else {}
    starts: dict[TopicPartition, Start] = {}
    policies: dict[TopicPartition, OffsetPolicy] = {}
    for partition, choice in chosen.items():
        if isinstance(choice, int):
            starts[partition] = Start(choice, "given")
        elif choice != "committed":
            policies[partition] = choice
        elif (commit := committed[partition]) is not None:
            starts[partition] = Start(commit.offset, "committed", commit.leader_epoch)
        else:
            policies[partition] = config.offset_initial_of(partition.topic)
    _check(policies, offsets.group if offsets is not None else "")
    if policies:
        for partition, place in (await lookup.find(policies)).items():
            starts[partition] = Start.at(place, describe_policy(policies[partition]))
    if offsets is not None:
        # So that the next start before the first mark does not resolve it anew and skip. Marks are the user's.
        ledger = offsets.ledger
        new = [tp for tp in policies if chosen[tp] == "committed" and ledger.marked(tp) is None]
        for partition in new:
            start = starts[partition]
            ledger.mark(partition, CommittedOffset(start.offset, leader_epoch=start.leader_epoch))
        if new:
            await offsets.commit(new)
    return {partition: starts[partition] for partition in chosen}


async def _take_up(
    offsets: OffsetManager, partitions: Iterable[TopicPartition], config: Config
) -> Mapping[TopicPartition, CommittedOffset | None]:
    """What the group has committed, once it has what is marked: the ledger begins there."""
    if config.autocommit and (marked := offsets.ledger.dirty().keys() & set(partitions)):
        await offsets.commit(marked)
    return await offsets.fetch(partitions)
