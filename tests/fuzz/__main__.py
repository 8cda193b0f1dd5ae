"""Feed hostile bytes to all parsers, different ones in each run: `python -m tests.fuzz [TARGET ...] --minutes N`.

Each failure is printed with its input, which `--replay HEX` feeds again. The exit code is 1 after a failure. Inputs are
random mutations of valid ones. With `--atheris`, libFuzzer searches for inputs that reach new code, for one target; it
needs `pip install atheris`, which has wheels for some versions of Python only.
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
"""The limit of address space in bytes: a parser that allocates a false length fails at it."""
_SLOW = 2.0
"""Seconds of CPU time after which an input, of some kilobytes, counts as a failure."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("targets", metavar="TARGET", nargs="*", help="targets to feed (default: all)")
    parser.add_argument("--minutes", type=float, default=1.0, help="duration for all targets together")
    parser.add_argument("--seed", type=int, help="repeat the mutations of the run that printed this seed")
    parser.add_argument("--replay", metavar="HEX", type=bytes.fromhex, help="feed this input only")
    parser.add_argument("--atheris", action="store_true", help="let libFuzzer choose the inputs of one target")
    arguments = parser.parse_args()
    if arguments.atheris:
        return _with_atheris(arguments.targets, arguments.minutes)
    from tests.fuzz.targets import TARGETS

    names = arguments.targets or list(TARGETS)
    if unknown := set(names) - set(TARGETS):
        parser.error(f"no such target: {', '.join(sorted(unknown))} (the targets are: {', '.join(TARGETS)})")
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    if arguments.replay is not None:
        return 0 if all(_passes(name, arguments.replay) for name in names) else 1
    seed = random.getrandbits(32) if arguments.seed is None else arguments.seed
    print(f"seed {seed}", flush=True)
    passed = [_feed(name, random.Random(seed), arguments.minutes * 60 / len(names)) for name in names]
    return 0 if all(passed) else 1


def _feed(name: str, rng: random.Random, seconds: float) -> bool:
    """Feed mutated inputs to a target for this time. Return True if it has handled all of them."""
    from tests.fuzz.mutations import mutated
    from tests.fuzz.targets import TARGETS

    seeds = list(TARGETS[name].seeds())
    until = time.monotonic() + seconds
    inputs = failures = 0
    while time.monotonic() < until:
        data = mutated(rng, rng.choice(seeds))
        inputs += 1
        failures += not _passes(name, data)
    print(f"{name}: {inputs} inputs, {failures} failures", flush=True)
    return not failures


def _passes(name: str, data: bytes) -> bool:
    """Feed one input. Return True if the target handles it without an exception and in time, else print it."""
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
    """Run libFuzzer, which ends the process itself, with its own code after a failure. Return 2 if it cannot run."""
    try:
        import atheris
    except ImportError:
        print("atheris is not installed: run `pip install atheris`, or omit --atheris", file=sys.stderr)
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
