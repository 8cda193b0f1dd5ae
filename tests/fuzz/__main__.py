"""`python -m tests.fuzz [TARGET ...] --minutes N`: hostile bytes for as long as you like; fresh ones each time.

What surprises a target is printed with its input, which `--replay HEX` gives to it again; exit code 1 if anything did.
Without coverage, good inputs are mutated at random. `--atheris` lets libFuzzer look for those that reach what none has
reached before, on one target; it needs `pip install atheris`, which has wheels for some versions of Python only.
"""

from __future__ import annotations

import argparse
import random
import resource
import sys
import time
import traceback
from collections.abc import Sequence

_MEMORY = 4 * 2**30
"""Bytes of address space: a length that is believed runs into it."""
_SLOW = 2.0
"""Seconds of CPU that no input of some kilobytes may take."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("targets", metavar="TARGET", nargs="*", help="what is fed; all, if none is named")
    parser.add_argument("--minutes", type=float, default=1.0, help="how long, for all of them together")
    parser.add_argument("--seed", type=int, help="mutate as the run did that printed this seed")
    parser.add_argument("--replay", metavar="HEX", type=bytes.fromhex, help="feed this to the one target named")
    parser.add_argument("--atheris", action="store_true", help="let libFuzzer lead the way; one target, this process")
    arguments = parser.parse_args()
    if arguments.atheris:
        return _with_atheris(arguments.targets, arguments.minutes)
    from tests.fuzz.targets import TARGETS

    names = arguments.targets or list(TARGETS)
    if unknown := set(names) - set(TARGETS):
        parser.error(f"no such target: {', '.join(sorted(unknown))} (there are: {', '.join(TARGETS)})")
    if arguments.replay is not None:
        return 0 if all(_is_taken(name, arguments.replay) for name in names) else 1
    seed = random.getrandbits(32) if arguments.seed is None else arguments.seed
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    print(f"seed {seed}", flush=True)
    lived = [_feed(name, random.Random(seed), arguments.minutes * 60 / len(names)) for name in names]
    return 0 if all(lived) else 1


def _feed(name: str, rng: random.Random, seconds: float) -> bool:
    from tests.fuzz.mutations import mutated
    from tests.fuzz.targets import TARGETS

    seeds = list(TARGETS[name].seeds())
    until = time.monotonic() + seconds
    fed = found = 0
    while time.monotonic() < until:
        data = mutated(rng, rng.choice(seeds))
        fed += 1
        found += not _is_taken(name, data)
    print(f"{name}: {fed} inputs, {found} surprises", flush=True)
    return not found


def _is_taken(name: str, data: bytes) -> bool:
    from tests.fuzz.targets import TARGETS

    began = time.process_time()
    try:
        TARGETS[name].run(data)
    except Exception:
        print(f"{name} --replay {data.hex()}\n{traceback.format_exc()}", flush=True)
        return False
    took = time.process_time() - began
    if took > _SLOW:
        print(f"{name} --replay {data.hex()}\ntook {took:.1f} s of CPU", flush=True)
        return False
    return True


def _with_atheris(names: Sequence[str], minutes: float) -> int:
    """Never comes back from libFuzzer, which ends the process itself; with a surprise, by an exit code of its own."""
    try:
        import atheris
    except ImportError:
        print("atheris is not installed here: `pip install atheris`, or leave --atheris out", file=sys.stderr)
        return 2
    with atheris.instrument_imports(include=["sarameya", "kafka"]):
        from tests.fuzz.targets import TARGETS
    if len(names) != 1 or names[0] not in TARGETS:
        print(f"name one target: {', '.join(TARGETS)}", file=sys.stderr)
        return 2
    target = TARGETS[names[0]]
    import tempfile
    from pathlib import Path

    with tempfile.TemporaryDirectory() as corpus:
        for number, seed in enumerate(target.seeds()):
            Path(corpus, f"seed-{number}").write_bytes(seed)
        limits = [f"-max_total_time={round(minutes * 60)}", "-rss_limit_mb=4096", "-timeout=10", "-max_len=8192"]
        atheris.Setup([sys.argv[0], *limits, corpus], target.run)
        atheris.Fuzz()
    return 0


if __name__ == "__main__":
    sys.exit(main())
