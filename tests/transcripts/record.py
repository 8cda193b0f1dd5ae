"""`python -m tests.transcripts.record [THEME ...]`: record the responses of Apache Kafka 4.1, for all themes or some.

It starts brokers of its own, and so needs Java and Maven. The unit tests compare the embedded broker with the golden
files that it writes: read their differences before you commit them.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

import trio

from tests.integration.real_kafka import RealKafka
from tests.transcripts import golden
from tests.transcripts.golden import Answers
from tests.transcripts.player import play_all
from tests.transcripts.stage import FEW, RACKS, live_stage
from tests.transcripts.suite import THEMES


def main(themes: list[str]) -> None:
    unknown = set(themes) - THEMES.keys()
    if unknown:
        sys.exit(f"no such theme: {', '.join(sorted(unknown))} (themes: {', '.join(THEMES)})")
    with tempfile.TemporaryDirectory() as directory:
        with RealKafka(Path(directory, "one")) as kafka:
            played = trio.run(_play, kafka.bootstrap_servers[0], themes or list(THEMES), 1)
        limits = {"group.max.size": str(FEW)}
        with RealKafka(Path(directory, "three"), brokers=3, properties=limits, racks=RACKS) as kafka:
            played_by_three = trio.run(_play, kafka.bootstrap_servers[0], themes or list(THEMES), 3)
    for theme in themes or THEMES:
        golden.save(theme, {**played[theme], **played_by_three[theme]})


async def _play(bootstrap: str, themes: list[str], brokers: int) -> Mapping[str, Mapping[tuple[str, str], Answers]]:
    stage = await live_stage(bootstrap, "record")
    return {theme: await play_all(stage, [t for t in THEMES[theme] if t.brokers == brokers]) for theme in themes}


if __name__ == "__main__":
    main(sys.argv[1:])
