"""Where each claim of a session begins: the handler's word, else the group's commit, else the policy."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import attrs

from sarameya.config import Config
from sarameya.consumer.offset_lookup import OffsetLookup
from sarameya.errors import HandlerError
from sarameya.group.handler import ConsumerGroupHandler
from sarameya.group.offset_manager import OffsetManager
from sarameya.model import CommittedOffset, TopicPartition, is_offset


@attrs.frozen(slots=True)
class Start:
    """`why` is `handler`, `committed`, `added` (while running), or the policy that chose the offset."""

    offset: int
    why: str


async def find_starts(
    committed: Mapping[TopicPartition, CommittedOffset | None],
    handler: ConsumerGroupHandler,
    offsets: OffsetManager,
    lookup: OffsetLookup,
    config: Config,
    is_new: Callable[[TopicPartition], bool],
) -> dict[TopicPartition, Start]:
    """The start of each partition in `committed`; where nothing is and `is_new` (it was added while we ran), its very
    beginning. Raises what `start_offset` raises, HandlerError if it returns no
    offset, CommitError if the generation is over meanwhile."""
    starts: dict[TopicPartition, Start] = {}
    for partition, commit in committed.items():
        chosen = await handler.start_offset(partition, commit)
        if chosen is not None:
            if not is_offset(chosen):
                raise HandlerError(f"start_offset({partition}) returned {chosen!r}: must be an offset (an int) or None")
            starts[partition] = Start(chosen, "handler")
        elif commit is not None:
            starts[partition] = Start(commit.offset, "committed")
    unknown = {
        partition: "oldest" if is_new(partition) else config.offset_initial
        for partition in committed
        if partition not in starts
    }
    if unknown:
        for partition, offset in (await lookup.find(unknown)).items():
            starts[partition] = Start(offset, "added" if is_new(partition) else unknown[partition])
            # Committed at once, so that a rejoin before the first mark does not resolve it anew and skip.
            offsets.ledger.mark(partition, CommittedOffset(offset))
        # These and no others: what else is marked may not be durable yet, where the handler commits itself.
        await offsets.commit(unknown)
    return starts
