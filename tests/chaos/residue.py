"""Residue that services must not leave: processes, temporary files, files that no link names."""

from __future__ import annotations

from collections.abc import Iterator

from tests.chaos.scene import Scene

_NOT_OURS = ("hsperfdata_",)
"""Of every JVM's own; the next JVM removes those of the dead."""


def survivors(stage: Scene) -> Iterator[str]:
    """Describe processes that outlive their service."""
    for service in stage.services.values():
        for pid, command in service.processes().items():
            yield f"{service.name} has left process {pid}: {command[:200]}"


def left_in_tmp(stage: Scene) -> Iterator[str]:
    """Describe files of services in /tmp; nothing is known of it where it is not the run's own."""
    if stage.tmp.is_own:
        left = sorted(path.name for path in stage.tmp.path.iterdir() if not path.name.startswith(_NOT_OURS))
        if left:
            yield f"{len(left)} files left in /tmp: {' '.join(left[:10])}"


async def prove_swept(stage: Scene) -> None:
    """Check that `sweep` removes leftovers of killed writes in the Parquet table, and `verify` proves every table."""
    swept = await stage.command("sweep", "--older-than", "1s", "--force", "--execute", "--quiet")
    if swept.code:
        stage.violation(f"sweep: exit code {swept.code}: {swept.err.strip()[-200:]}")
    bootstrap = ",".join(stage.kafka.bootstrap_servers)
    for component in stage.services:
        proved = await stage.command("verify", "--bootstrap", bootstrap, "--json", "--quiet", component=component)
        stage.say(f"verify of {component}: exit code {proved.code}")
        if proved.code:
            stage.violation(f"verify of {component}: exit code {proved.code}: {(proved.out + proved.err)[-300:]}")
        elif component == "parquet" and (left := proved.document["leftovers"]):
            stage.violation(f"{len(left)} leftovers in the Parquet table after a sweep: {left[0]}")
