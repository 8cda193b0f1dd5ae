"""Side by side with the peers: each bench runs every contender in one go on one machine and prints ratios.

A bench is a package here with a docstring, whose first line says what it measures, and two functions:
`add_options(parser)` adds its options to an argparse parser, `--json` among them; `main(options)` measures, prints and
returns the exit code. `BENCHES` names them. `common` has what all share, `members` the programs that most of them run.
`page` puts figures into the documentation, `compare` runs benches with two commits. Figures of two runs or two machines
are not comparable, ratios within a run are.
"""

from __future__ import annotations

BENCHES: tuple[str, ...] = (
    "consume",
    "land",
    "landing-day",
    "growth",
    "workers",
    "latency",
    "slow-partition",
    "idle",
    "memory",
    "rebalance",
)
"""The packages here that are benches, in the order in which `make bench` runs them. In a package's name a - is a _."""
