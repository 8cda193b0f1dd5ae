"""Benchmarks: each bench runs Sarameya and its peers on one machine, in one run, and prints ratios.

A bench is a package here with a docstring, whose first line says what it measures, and two functions:
`add_options(parser)` adds its options to an argparse parser, `--json` among them; `main(options)` measures, prints and
returns the exit code. `BENCHES` names the benches. `common` has the code that all of them share, `members` the programs
that most of them run. `page` puts figures into the documentation, `compare` runs benches with two commits. Ratios
within one run are comparable; figures of two runs, or of two machines, are not.
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
    "handlers",
    "idle",
    "memory",
    "rebalance",
)
"""The benches, in the order in which `make bench` runs them. The name of a bench's package has _ instead of -."""
