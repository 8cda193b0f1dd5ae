"""The offsets that a group must commit for a table that is restored to an older version. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import attrs

from sarameya import CommittedOffset, TopicPartition
from sarameya.service import counted, table
from sarameya_handlers.audit.facts import GroupFacts, LogSpan
from sarameya_handlers.audit.wording import offsets
from sarameya_handlers.landing.chain_start import Log, choose_chain_start
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

    `after` is None if no offset can be committed, or none has to be.
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
    """Return a rewind for each chain: of the table, of its older version, or known from a committed offset only."""
    heads = {**chains.then, **chains.now}
    known = {key: head.origin for key, head in heads.items()}
    known |= _only_committed(known, groups)
    rewinds = [_rewind_of(key, known[key], chains, groups, logs) for key in sorted(known)]
    return _one_sink_each(rewinds)


def _only_committed(known: Mapping[ChainKey, Origin], groups: Mapping[str, GroupFacts]) -> dict[ChainKey, Origin]:
    """Return chains that neither version has, but that a committed offset names.

    They were started after the older version, and the table was restored since. A chain is returned only if its sink,
    topic and group have another chain in the table.
    """
    in_table = {(key.sink, key.topic, origin.group): origin for key, origin in known.items()}
    found: dict[ChainKey, Origin] = {}
    for group, facts in groups.items():
        for partition, commit in facts.committed.items():
            note = CommitNote.from_metadata(commit.metadata)
            if note is None:
                continue
            key = ChainKey(note.sink, *partition)
            if key not in known and (note.sink, partition.topic, group) in in_table:
                found[key] = in_table[note.sink, partition.topic, group]
    return found


def _rewind_of(
    key: ChainKey,
    origin: Origin,
    chains: Chains,
    groups: Mapping[str, GroupFacts],
    logs: Mapping[TopicPartition, LogSpan],
) -> ChainRewind:
    group, log = groups.get(origin.group, GroupFacts()), logs.get(key.topic_partition, LogSpan())
    now, then = chains.now.get(key), chains.then.get(key)
    before = group.committed.get(key.topic_partition)
    rewind = ChainRewind(key=key, group=origin.group, now=now, then=then, before=before, after=None)
    if group.problem:
        return attrs.evolve(rewind, problem=f"the group's committed offsets are unknown: {group.problem}")
    if then is not None:
        after = CommittedOffset(then.to_offset, CommitNote.of(then).to_metadata(), then.leader_epoch)
        if before is not None and _matches(before, then):
            return attrs.evolve(rewind, remark="committed already", problem=_refusal(key, origin, then, before, log))
        return attrs.evolve(rewind, after=after, problem=_refusal(key, origin, then, after, log))
    return _to_the_start(rewind, chains.first.get(key), origin, log)


def _one_sink_each(rewinds: Sequence[ChainRewind]) -> list[ChainRewind]:
    """Choose one sink for each group and partition, which has only one commit: the one that the last commit names."""
    sinks: dict[tuple[str, TopicPartition], list[str]] = {}
    for rewind in rewinds:
        sinks.setdefault((rewind.group, rewind.key.topic_partition), []).append(rewind.key.sink)
    found: list[ChainRewind] = []
    for rewind in rewinds:
        note = CommitNote.from_metadata(rewind.before.metadata) if rewind.before else None
        others = [sink for sink in sinks[rewind.group, rewind.key.topic_partition] if sink != rewind.key.sink]
        if others and (note is None or note.sink != rewind.key.sink):
            names = ", ".join(map(repr, others))
            rewind = attrs.evolve(
                rewind, after=None, problem="", remark=f"the group lands it as sink {names}, too: left as is"
            )
        found.append(rewind)
    return found


def _matches(commit: CommittedOffset, head: Link) -> bool:
    """Return whether the commit matches this head already. Its offset may be later, in a tail without records."""
    return CommitNote.from_metadata(commit.metadata) == CommitNote.of(head) and commit.offset >= head.to_offset


def _to_the_start(rewind: ChainRewind, first: Link | None, origin: Origin, log: LogSpan) -> ChainRewind:
    if first is not None and first.number == 1:
        offset, remark = first.from_offset, "the chain did not exist yet: back to its first offset"
    elif log.start is not None:
        offset, remark = log.start, "the chain did not exist yet, and its first offset is unknown: to the log start"
    else:
        problem = f"the chain did not exist yet, and its log is unknown: {log.problem or 'no broker responded'}"
        return attrs.evolve(rewind, problem=problem)
    after = CommittedOffset(offset, "", UNKNOWN_EPOCH)
    problem = _refusal(rewind.key, origin, None, after, log)
    if log.start is not None and log.start > offset:
        problem = f"the log starts at {log.start}: {offsets(offset, log.start)} are deleted and cannot land again"
    if rewind.before == after:
        return attrs.evolve(rewind, remark="committed already", problem=problem)
    return attrs.evolve(rewind, after=after, remark=remark, problem=problem)


def _refusal(key: ChainKey, origin: Origin, head: Link | None, commit: CommittedOffset, log: LogSpan) -> str:
    """Return the reason why the next owner could not start; empty if it could."""
    known = Log(start=0, end=2**63 - 1)
    if log.start is not None and log.end is not None:
        known = Log(start=log.start, end=log.end, epoch_end=log.epoch_end)
    try:
        choose_chain_start(
            key, Origin(group=origin.group, topic_id=log.topic_id or origin.topic_id), head, commit, known
        )
    except ChainError as error:
        return str(error)
    return ""


# -- output ------------------------------------------------------------------------------------------

_HEADER = ("SINK", "TOPIC", "PARTITION", "GROUP", "HEAD", "TO-HEAD", "COMMITTED", "NEW-COMMIT", "REMARK")


def rewind_text(
    name: str, to: str, rewinds: Sequence[ChainRewind], active: Mapping[str, str], *, executed: bool
) -> str:
    """Return the text for a person. `active` has the members of active groups."""
    rows = [
        (
            rewind.key.sink,
            rewind.key.topic,
            rewind.key.partition,
            rewind.group,
            _link_text(rewind.now),
            _link_text(rewind.then),
            _commit_text(rewind.before),
            _commit_text(rewind.after),
            _remark(rewind),
        )
        for rewind in rewinds
    ]
    parts = [f"TABLE {name}, to {to}", table(_HEADER, rows), "\n".join(_advice(rewinds, active, executed))]
    return "\n\n".join(parts)


def _link_text(link: Link | None) -> str:
    return f"{link.to_offset} (link {link.number})" if link else ""


def _commit_text(commit: CommittedOffset | None) -> str:
    if commit is None:
        return ""
    note = CommitNote.from_metadata(commit.metadata)
    return f"{commit.offset} (link {note.number})" if note else str(commit.offset)


def _remark(rewind: ChainRewind) -> str:
    if rewind.error:
        return f"not changed: {rewind.error}"
    return "; ".join(part for part in (rewind.remark, rewind.problem) if part)


def _advice(rewinds: Sequence[ChainRewind], active: Mapping[str, str], executed: bool) -> Iterable[str]:
    for group, members in active.items():
        yield f"Group {group!r} is active: {members}. Stop its members before anything is restored or committed."
    changes = sum(rewind.after is not None for rewind in rewinds)
    if problems := sum(bool(rewind.problem) for rewind in rewinds):
        yield f"Landing could not continue in {counted(problems, 'chain')}: see the remarks."
    if executed:
        refused = sum(bool(rewind.error) for rewind in rewinds)
        yield f"Done, except for {counted(refused, 'partition')}." if refused else "Done."
    elif changes:
        yield f"{counted(changes, 'commit')} to be changed. Nothing is changed yet: add --execute to do it."
    else:
        yield "Nothing has to be changed."


def rewind_document(name: str, to: str, rewinds: Sequence[ChainRewind], *, executed: bool) -> dict[str, Any]:
    """Return the document for programs."""
    return {
        "table": name,
        "to": to,
        "executed": executed,
        "chains": [
            {
                "sink": rewind.key.sink,
                "topic": rewind.key.topic,
                "partition": rewind.key.partition,
                "group": rewind.group,
                "head": _link(rewind.now),
                "to_head": _link(rewind.then),
                "committed": _commit(rewind.before),
                "new": _commit(rewind.after),
                "remark": rewind.remark or None,
                "problem": rewind.problem or None,
                "error": rewind.error or None,
            }
            for rewind in rewinds
        ],
    }


def _link(link: Link | None) -> dict[str, Any] | None:
    return {"number": link.number, "attempt": link.attempt, "to_offset": link.to_offset} if link else None


def _commit(commit: CommittedOffset | None) -> dict[str, Any] | None:
    return {"offset": commit.offset, "metadata": commit.metadata} if commit else None
