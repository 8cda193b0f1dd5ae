"""The offsets that a group must commit for a table that is restored to an older version. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import attrs

from sarameya import CommittedOffset, TopicPartition
from sarameya.service import counted, table
from sarameya_handlers.audit.facts import GroupFacts, LogSpan
from sarameya_handlers.audit.wording import offsets
from sarameya_handlers.landing.chain_start import Log, begin
from sarameya_handlers.landing.errors import ChainError
from sarameya_handlers.landing.links import UNKNOWN_EPOCH, ChainKey, CommitNote, Link, Origin


@attrs.frozen(slots=True, kw_only=True)
class Chains:
    """The chains of a table, now and in the older version."""

    now: Mapping[ChainKey, Link]
    """The heads now."""
    then: Mapping[ChainKey, Link]
    """The heads that groups have to match: those of the older version, or those of now."""
    first: Mapping[ChainKey, Link] = attrs.field(factory=dict)
    """The first link of each chain that the older version lacks, if the table remembers it."""


@attrs.frozen(slots=True, kw_only=True)
class ChainRewind:
    """The rewind of one chain: the offset that its group commits.

    `after` is None if none can be, or has to be, committed.
    """

    key: ChainKey
    group: str
    now: Link | None
    then: Link | None
    before: CommittedOffset | None
    after: CommittedOffset | None
    remark: str = ""
    problem: str = ""
    """Why landing could not continue from there, or why nothing can be committed."""
    error: str = ""
    """Why the coordinator refused it."""


def plan_rewind(
    chains: Chains, groups: Mapping[str, GroupFacts], logs: Mapping[TopicPartition, LogSpan]
) -> list[ChainRewind]:
    """Return a move for each chain of the table, of its older version, or that a committed offset gives evidence of."""
    heads = {**chains.then, **chains.now}
    known = {key: head.origin for key, head in heads.items()}
    known |= _only_committed(known, groups)
    moves = [_move(key, known[key], chains, groups, logs) for key in sorted(known)]
    return _one_sink_each(moves)


def _only_committed(known: Mapping[ChainKey, Origin], groups: Mapping[str, GroupFacts]) -> dict[ChainKey, Origin]:
    """Return chains that no version shows, but that a commit names, beside others of their sink, topic and group.

    They were started after the older version, and the table was restored since.
    """
    there = {(key.sink, key.topic, origin.group): origin for key, origin in known.items()}
    found: dict[ChainKey, Origin] = {}
    for group, facts in groups.items():
        for partition, commit in facts.committed.items():
            note = CommitNote.from_metadata(commit.metadata)
            if note is None:
                continue
            key = ChainKey(note.sink, *partition)
            if key not in known and (note.sink, partition.topic, group) in there:
                found[key] = there[note.sink, partition.topic, group]
    return found


def _move(
    key: ChainKey,
    origin: Origin,
    chains: Chains,
    groups: Mapping[str, GroupFacts],
    logs: Mapping[TopicPartition, LogSpan],
) -> ChainRewind:
    group, log = groups.get(origin.group, GroupFacts()), logs.get(key.topic_partition, LogSpan())
    now, then = chains.now.get(key), chains.then.get(key)
    before = group.committed.get(key.topic_partition)
    move = ChainRewind(key=key, group=origin.group, now=now, then=then, before=before, after=None)
    if group.problem:
        return attrs.evolve(move, problem=f"the group's committed offsets are unknown: {group.problem}")
    if then is not None:
        after = CommittedOffset(then.to_offset, CommitNote.of(then).to_metadata(), then.leader_epoch)
        if before is not None and _says(before, then):
            return attrs.evolve(move, remark="committed already", problem=_refusal(key, origin, then, before, log))
        return attrs.evolve(move, after=after, problem=_refusal(key, origin, then, after, log))
    return _to_the_start(move, chains.first.get(key), origin, log)


def _one_sink_each(moves: Sequence[ChainRewind]) -> list[ChainRewind]:
    """Choose one sink for each group and partition, which has only one commit: the one that the last commit names."""
    sinks: dict[tuple[str, TopicPartition], list[str]] = {}
    for move in moves:
        sinks.setdefault((move.group, move.key.topic_partition), []).append(move.key.sink)
    found: list[ChainRewind] = []
    for move in moves:
        note = CommitNote.from_metadata(move.before.metadata) if move.before else None
        others = [sink for sink in sinks[move.group, move.key.topic_partition] if sink != move.key.sink]
        if others and (note is None or note.sink != move.key.sink):
            names = ", ".join(map(repr, others))
            move = attrs.evolve(
                move, after=None, problem="", remark=f"the group lands it as sink {names}, too: left as is"
            )
        found.append(move)
    return found


def _says(commit: CommittedOffset, head: Link) -> bool:
    """Return whether the commit matches this head already. Its offset may be later, in a tail without records."""
    return CommitNote.from_metadata(commit.metadata) == CommitNote.of(head) and commit.offset >= head.to_offset


def _to_the_start(move: ChainRewind, first: Link | None, origin: Origin, log: LogSpan) -> ChainRewind:
    if first is not None and first.number == 1:
        offset, remark = first.from_offset, "the chain did not exist yet: back to its first offset"
    elif log.start is not None:
        offset, remark = log.start, "the chain did not exist yet, and its first offset is unknown: to the log start"
    else:
        problem = f"the chain did not exist yet, and its log is unknown: {log.problem or 'no broker responded'}"
        return attrs.evolve(move, problem=problem)
    after = CommittedOffset(offset, "", UNKNOWN_EPOCH)
    problem = _refusal(move.key, origin, None, after, log)
    if log.start is not None and log.start > offset:
        problem = f"the log starts at {log.start}: {offsets(offset, log.start)} are deleted and cannot land again"
    if move.before == after:
        return attrs.evolve(move, remark="committed already", problem=problem)
    return attrs.evolve(move, after=after, remark=remark, problem=problem)


def _refusal(key: ChainKey, origin: Origin, head: Link | None, commit: CommittedOffset, log: LogSpan) -> str:
    """Return the reason why the next owner could not start; empty if it could."""
    known = Log(start=0, end=2**63 - 1)
    if log.start is not None and log.end is not None:
        known = Log(start=log.start, end=log.end, epoch_end=log.epoch_end)
    try:
        begin(key, Origin(group=origin.group, topic_id=log.topic_id or origin.topic_id), head, commit, known)
    except ChainError as error:
        return str(error)
    return ""


# -- output ------------------------------------------------------------------------------------------

_HEADER = ("SINK", "TOPIC", "PARTITION", "GROUP", "HEAD", "TO-HEAD", "COMMITTED", "NEW-COMMIT", "REMARK")


def rewind_text(name: str, to: str, moves: Sequence[ChainRewind], active: Mapping[str, str], *, executed: bool) -> str:
    """Return the text for a person. `active` has the members of active groups."""
    rows = [
        (
            move.key.sink,
            move.key.topic,
            move.key.partition,
            move.group,
            _link_text(move.now),
            _link_text(move.then),
            _commit_text(move.before),
            _commit_text(move.after),
            _remark(move),
        )
        for move in moves
    ]
    parts = [f"TABLE {name}, to {to}", table(_HEADER, rows), "\n".join(_advice(moves, active, executed))]
    return "\n\n".join(parts)


def _link_text(link: Link | None) -> str:
    return f"{link.to_offset} (link {link.number})" if link else ""


def _commit_text(commit: CommittedOffset | None) -> str:
    if commit is None:
        return ""
    note = CommitNote.from_metadata(commit.metadata)
    return f"{commit.offset} (link {note.number})" if note else str(commit.offset)


def _remark(move: ChainRewind) -> str:
    if move.error:
        return f"not changed: {move.error}"
    return "; ".join(part for part in (move.remark, move.problem) if part)


def _advice(moves: Sequence[ChainRewind], active: Mapping[str, str], executed: bool) -> Iterable[str]:
    for group, members in active.items():
        yield f"Group {group!r} is active: {members}. Stop its members before anything is restored or committed."
    changes = sum(move.after is not None for move in moves)
    if problems := sum(bool(move.problem) for move in moves):
        yield f"Landing could not continue in {counted(problems, 'chain')}: see the remarks."
    if executed:
        refused = sum(bool(move.error) for move in moves)
        yield f"Done, except for {counted(refused, 'partition')}." if refused else "Done."
    elif changes:
        yield f"{counted(changes, 'commit')} to be changed. Nothing is changed yet: add --execute to do it."
    else:
        yield "Nothing has to be changed."


def rewind_document(name: str, to: str, moves: Sequence[ChainRewind], *, executed: bool) -> dict[str, Any]:
    """Return the document for programs."""
    return {
        "table": name,
        "to": to,
        "executed": executed,
        "chains": [
            {
                "sink": move.key.sink,
                "topic": move.key.topic,
                "partition": move.key.partition,
                "group": move.group,
                "head": _link(move.now),
                "to_head": _link(move.then),
                "committed": _commit(move.before),
                "new": _commit(move.after),
                "remark": move.remark or None,
                "problem": move.problem or None,
                "error": move.error or None,
            }
            for move in moves
        ],
    }


def _link(link: Link | None) -> dict[str, Any] | None:
    return {"number": link.number, "attempt": link.attempt, "to_offset": link.to_offset} if link else None


def _commit(commit: CommittedOffset | None) -> dict[str, Any] | None:
    return {"offset": commit.offset, "metadata": commit.metadata} if commit else None
