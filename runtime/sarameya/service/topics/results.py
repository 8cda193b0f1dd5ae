"""Requests and results of each command of `sarameya topics`: text, document and errors. Trio."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial

from sarameya.errors import ConfigError, SarameyaError
from sarameya.net.admin.topic_admin import BY_DEFAULT, TopicAdmin
from sarameya.net.log_offsets import LOG_END, LOG_START
from sarameya.protocol.cluster.described_topics import DescribedTopic
from sarameya.service.output.command_result import CommandResult, Document
from sarameya.service.output.text import counted
from sarameya.service.topics.report import (
    TopicReport,
    listing_document,
    listing_text,
    report_document,
    report_text,
    size_text,
)


async def list_topics(admin: TopicAdmin, internal: bool) -> CommandResult:
    """List the topics of the cluster, with Kafka's internal topics if `internal`."""
    topics = [topic for topic in await admin.list_topics() if internal or not topic.is_internal]
    return CommandResult(listing_document(topics), listing_text(topics))


async def describe(admin: TopicAdmin, names: Sequence[str] | None) -> CommandResult:
    """Describe these topics, or all except Kafka's internal topics if `names` is None.

    The result has an error for each topic that cannot be described. The other topics are described all the same.
    """
    refused: dict[str, SarameyaError] = {}
    if names is None:
        topics = [topic for topic in await admin.list_topics() if not topic.is_internal]
    else:
        topics, refused = await admin.describe_existing(names)
    reports = await _reports(admin, topics)
    text = "\n\n\n".join(map(report_text, reports))
    document = {
        "topics": [report_document(report) for report in reports],
        "errors": [{"topic": name, "error": str(error)} for name, error in refused.items()],
    }
    return CommandResult(document, text if reports or refused else "no topics", tuple(refused.values()))


async def create(
    admin: TopicAdmin, names: Sequence[str], partitions: int, replicas: int, settings: Mapping[str, str]
) -> CommandResult:
    """Create topics one after the other. Each row of the result has its error."""
    note = "" if partitions == BY_DEFAULT else f", with {counted(partitions, 'partition')}"
    changes = {name: partial(admin.create, name, partitions, replicas, settings) for name in names}
    lines, rows, errors = await _make_changes(changes, "created", dict.fromkeys(names, note))
    return CommandResult({"executed": True, "topics": rows}, "\n".join(lines), errors)


async def grow(admin: TopicAdmin, name: str, partitions: int, execute: bool) -> CommandResult:
    """Add partitions to a topic with `execute`; else show the change."""
    (topic,) = await admin.describe([name])
    before = len(topic.partitions)
    if partitions <= before:
        raise ConfigError("--partitions", partitions, f"must be more than the {before} that topic {name!r} has")
    change_text = f"topic {name!r}: {before} to {counted(partitions, 'partition')}"
    warning = "Keys then go to other partitions: a key's new messages are not in order with its old messages."
    if execute:
        await admin.grow(name, partitions)
        lines = [f"{change_text}: done"]
    else:
        lines = [f"{change_text}; this cannot be undone", warning, _HINT]
    document = {"executed": execute, "topic": name, "partitions": before, "new_partitions": partitions}
    return CommandResult(document, "\n".join(lines))


async def delete(admin: TopicAdmin, names: Sequence[str], execute: bool) -> CommandResult:
    """Delete topics with `execute`; else show their sizes. If a topic does not exist, none is deleted."""
    reports = await _reports(admin, await admin.describe(names))
    sizes = {report.topic.name: f", with {size_text(report)}" for report in reports}
    if not execute:
        lines = [f"topic {name!r}{size}: would be deleted with all its messages" for name, size in sizes.items()]
        rows: list[Document] = [{"topic": name, "error": None} for name in sizes]
        return CommandResult({"executed": False, "topics": rows}, "\n".join([*lines, _HINT]))
    changes = {name: partial(admin.delete, name) for name in sizes}
    lines, rows, errors = await _make_changes(changes, "deleted", sizes)
    return CommandResult({"executed": True, "topics": rows}, "\n".join(lines), errors)


_HINT = "Nothing is changed yet: add --execute to do it."


async def _make_changes(
    changes: Mapping[str, Callable[[], Awaitable[None]]], verb: str, notes: Mapping[str, str]
) -> tuple[list[str], list[Document], tuple[SarameyaError, ...]]:
    """Make changes one after the other. Return a line and a row for each, and the errors."""
    lines: list[str] = []
    rows: list[Document] = []
    errors: list[SarameyaError] = []
    for name, change in changes.items():
        error: SarameyaError | None = None
        try:
            await change()
        except SarameyaError as raised:  # earlier changes are still reported
            error = raised
            errors.append(raised)
        lines.append(f"topic {name!r}{'' if error else notes[name]}: {'not ' * bool(error)}{verb}")
        rows.append({"topic": name, "error": str(error) if error else None})
    return lines, rows, tuple(errors)


async def _reports(admin: TopicAdmin, topics: Iterable[DescribedTopic]) -> list[TopicReport]:
    described = list(topics)
    if not described:
        return []
    names = [topic.name for topic in described]
    await admin.metadata(names)
    partitions = [row.partition for topic in described for row in topic.partitions if row.leader is not None]
    starts, ends = await admin.log_offsets(partitions, LOG_START), await admin.log_offsets(partitions, LOG_END)
    settings: dict[str, dict[str, str | None]] | None
    try:
        settings, why = await admin.settings(names), ""
    except SarameyaError as error:  # settings need another ACL
        settings, why = None, str(error)
    return [
        TopicReport(topic, starts, ends, None if settings is None else settings.get(topic.name, {}), why)
        for topic in described
    ]
