"""Results of each command of `sarameya groups`: text, document and errors. Trio."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import attrs

from sarameya.errors import SarameyaError, UnsupportedVersionError
from sarameya.net.admin.group_admin import GroupAdmin
from sarameya.protocol.cluster.described_groups import DEAD, Listing
from sarameya.service.groups import operations
from sarameya.service.groups.checks import check_inactive
from sarameya.service.groups.documents import (
    Document,
    deletions_document,
    listing_document,
    moves_document,
    report_document,
)
from sarameya.service.groups.reset import OffsetMove, ResetTarget
from sarameya.service.groups.tables import deletions_text, listing_text, moves_text, report_text
from sarameya.service.groups.topic_choice import TopicChoice
from sarameya.service.output.command_result import CommandResult
from sarameya.service.output.progress_display import QuietSteps, Steps
from sarameya.service.output.text import counted


async def list_groups(admin: GroupAdmin, states: Iterable[str] = ()) -> CommandResult:
    """List the groups of the cluster: all, or the groups in `states` if any are given."""
    listing = await admin.list_groups()
    wanted = frozenset(states)
    if wanted:
        if any(group.state is None for group in listing.groups):
            raise UnsupportedVersionError("a broker older than Kafka 2.6 reports no states; list without --state")
        listing = attrs.evolve(listing, groups=tuple(group for group in listing.groups if group.state in wanted))
    text = listing_text(listing.groups) if listing.groups else "no groups"
    return CommandResult(listing_document(listing), text, _unreachable(listing))


async def describe(admin: GroupAdmin, groups: Sequence[str] | None) -> CommandResult:
    """Describe these groups, or all groups if `groups` is None."""
    listing = Listing(()) if groups is not None else await admin.list_groups()
    names = groups if groups is not None else [group.group for group in listing.groups]
    found = await operations.describe(admin, names)
    document: Document = {
        "groups": [report_document(report) for report in found.reports],
        "errors": [{"group": group, "error": str(error)} for group, error in found.failures],
        "unreachable": listing_document(listing)["unreachable"],
    }
    text = "\n\n\n".join(map(report_text, found.reports))
    if not found.reports and not found.failures:
        text = "no groups"
    return CommandResult(document, text, (*(error for _, error in found.failures), *_unreachable(listing)))


async def reset(
    admin: GroupAdmin,
    group: str,
    choices: Sequence[TopicChoice],
    target: ResetTarget,
    execute: bool,
    progress: Steps | None = None,
) -> CommandResult:
    """Plan the reset of a group's offsets, and commit it with `execute`."""
    progress = progress or QuietSteps()
    progress(f"reading group {group!r} and its logs")
    planned = await operations.plan_reset(admin, group, choices, target)
    if execute:
        progress(f"committing for {counted(len(planned.moves), 'partition')}")
    moves = await operations.carry_out_reset(admin, group, planned.moves) if execute else planned.moves
    lines = [f"group {group!r}, to {target}:", "", moves_text(moves), ""]
    if planned.group.state == DEAD:
        lines.append(f"There {'was' if execute else 'is'} no such group: the commit creates it.")
    return _change_result(moves_document(group, moves, executed=execute), moves, lines, execute)


async def delete_offsets(admin: GroupAdmin, group: str, choices: Sequence[TopicChoice], execute: bool) -> CommandResult:
    """Plan the removal of commits, and remove them with `execute`."""
    moves = await operations.plan_offsets_deletion(admin, group, choices)
    if execute:
        moves = await operations.carry_out_offsets_deletion(admin, group, moves)
    lines = [f"group {group!r}, commits to delete:", "", deletions_text(moves), ""]
    return _change_result(deletions_document(group, moves, executed=execute), moves, lines, execute)


async def delete(admin: GroupAdmin, groups: Sequence[str], execute: bool) -> CommandResult:
    """Check that all groups can be deleted, and delete them with `execute`."""
    known = [await operations.existing(admin, group) for group in dict.fromkeys(groups)]
    for found in known:
        check_inactive(found.group)
    lines: list[str] = []
    groups_document: list[Document] = []
    errors: dict[str, SarameyaError] = {}
    for found in known:
        name, commits = found.group.group, len(found.committed)
        done = "would be deleted"
        if execute:
            try:
                await operations.delete_group(admin, name)
                done = "deleted"
            except SarameyaError as error:  # earlier deletions are still reported
                errors[name] = error
                done = "not deleted"
        lines.append(f"group {name!r}, with {counted(commits, 'commit')}: {done}")
        refusal = str(errors[name]) if name in errors else None
        groups_document.append({"group": name, "commits": commits, "error": refusal})
    document = {"executed": execute, "groups": groups_document}
    return CommandResult(document, "\n".join([*lines, *_hint(execute)]), tuple(errors.values()))


def _change_result(document: Document, moves: list[OffsetMove], lines: list[str], execute: bool) -> CommandResult:
    errors = tuple(SarameyaError(f"{move.partition}: not changed: {move.error}") for move in moves if move.error)
    if execute:
        lines.append(f"Done, except for {len(errors)} of {len(moves)} partitions." if errors else "Done.")
    return CommandResult(document, "\n".join([*lines, *_hint(execute)]), errors)


def _hint(execute: bool) -> list[str]:
    return [] if execute else ["Nothing is changed yet: add --execute to do it."]


def _unreachable(listing: Listing) -> tuple[SarameyaError, ...]:
    return tuple(
        SarameyaError(f"groups of broker {broker.node_id} at {broker.address} are not known: {error}")
        for broker, error in listing.failures
    )
