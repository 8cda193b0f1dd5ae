"""Residue that services must not leave: processes, temporary files, and files of no link."""

from __future__ import annotations

from collections.abc import Iterator

from tests.chaos.scene import Scene

_IGNORED = ("hsperfdata_",)
"""Prefixes of files that every JVM creates; the next JVM removes those of dead JVMs."""


def survivors(stage: Scene) -> Iterator[str]:
    """Describe each process that has outlived its service."""
    for service in stage.services.values():
        for pid, command in service.processes().items():
            yield f"{service.name} has left process {pid}: {command[:200]}"


def left_in_tmp(stage: Scene) -> Iterator[str]:
    """Describe the files that services have left in /tmp, if the run has a /tmp of its own."""
    if stage.tmp.is_own:
        left = sorted(path.name for path in stage.tmp.path.iterdir() if not path.name.startswith(_IGNORED))
        if left:
            yield f"{len(left)} files left in /tmp: {' '.join(left[:10])}"


async def prove_swept(stage: Scene) -> None:
    """Check that `sweep` removes leftovers of killed writes in the Parquet table, and `verify` accepts each table."""
    swept = await stage.command("sweep", "--older-than", "1s", "--force", "--execute", "--quiet")
    if swept.code:
        stage.add_violation(f"sweep: exit code {swept.code}: {swept.err.strip()[-200:]}")
    bootstrap = ",".join(stage.kafka.bootstrap_servers)
    for component in stage.services:
        verified = await stage.command("verify", "--bootstrap", bootstrap, "--json", "--quiet", component=component)
        stage.log(f"verify of {component}: exit code {verified.code}")
        if verified.code:
            stage.add_violation(
                f"verify of {component}: exit code {verified.code}: {(verified.out + verified.err)[-300:]}"
            )
        elif component == "parquet" and (left := verified.document["leftovers"]):
            stage.add_violation(f"{len(left)} leftovers in the Parquet table after a sweep: {left[0]}")
