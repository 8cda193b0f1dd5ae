"""Where each claim of a session begins: the handler's word, else the group's commit, else the policy."""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from sarameya.config import Config
from sarameya.consumer.offset_lookup import OffsetLookup
from sarameya.errors import HandlerError
from sarameya.group.handler import ConsumerGroupHandler
from sarameya.group.offset_manager import OffsetManager
from sarameya.model import CommittedOffset, TopicPartition, is_offset


@attrs.frozen(slots=True)
class Start:
    """`why` is `handler`, `committed`, or the policy that chose the offset."""

    offset: int
    why: str


async def find_starts(
    committed: Mapping[TopicPartition, CommittedOffset | None],
    handler: ConsumerGroupHandler,
    offsets: OffsetManager,
    lookup: OffsetLookup,
    config: Config,
) -> dict[TopicPartition, Start]:
    """The start of each partition in `committed`. Raises what `start_offset` raises, HandlerError if it returns no
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
    policy = config.offset_initial
    unknown = {partition: policy for partition in committed if partition not in starts}
    if unknown:
        for partition, offset in (await lookup.find(unknown)).items():
            starts[partition] = Start(offset, policy)
            # Committed at once, so that a rejoin before the first mark does not resolve it anew and skip.
            offsets.ledger.mark(partition, CommittedOffset(offset))
        await offsets.commit()
    return starts
