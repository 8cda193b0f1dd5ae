"""The recorded responses of Apache Kafka: `golden/<theme>.json`, one line for each step.

{transcript: {profiles with the same responses: {step: response}}}
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from tests.transcripts.responses import Plain

Answers = Mapping[str, Plain]
"""The responses of one play, by step."""
Plays = Mapping[tuple[str, str], Answers]
"""The responses of each play, by (transcript, profile)."""

_DIRECTORY = Path(__file__).with_name("golden")
_SEPARATOR = ", "


def load(theme: str) -> dict[tuple[str, str], Answers]:
    written = json.loads(_file(theme).read_text(encoding="utf-8"))
    return {
        (transcript, profile): answers
        for transcript, by_profiles in written.items()
        for profiles, answers in by_profiles.items()
        for profile in profiles.split(_SEPARATOR)
    }


def save(theme: str, plays: Plays) -> None:
    _file(theme).write_text(_text(_shared(plays)), encoding="utf-8")


def _file(theme: str) -> Path:
    return _DIRECTORY / f"{theme}.json"


def _shared(plays: Plays) -> dict[str, dict[str, Answers]]:
    """Group the plays by transcript, and join the names of profiles with the same responses."""
    shared: dict[str, dict[str, Answers]] = {}
    for (transcript, profile), answers in plays.items():
        by_profiles = shared.setdefault(transcript, {})
        same = next((profiles for profiles, others in by_profiles.items() if others == answers), None)
        if same is not None:
            del by_profiles[same]
        by_profiles[profile if same is None else f"{same}{_SEPARATOR}{profile}"] = answers
    return shared


def _text(shared: Mapping[str, Mapping[str, Answers]]) -> str:
    """Return JSON with one line for each step."""

    def named(name: str, content: str) -> str:
        return f"{json.dumps(name, ensure_ascii=False)}: {content}"

    def block(lines: list[str], indent: str) -> str:
        inner = ",\n".join(f"{indent}  {line}" for line in lines)
        return f"{{\n{inner}\n{indent}}}" if lines else "{}"

    transcripts = []
    for transcript, by_profiles in shared.items():
        variants = []
        for profiles, answers in by_profiles.items():
            steps = [named(step, json.dumps(answer, ensure_ascii=False)) for step, answer in answers.items()]
            variants.append(named(profiles, block(steps, "    ")))
        transcripts.append(named(transcript, block(variants, "  ")))
    return block(transcripts, "") + "\n"
