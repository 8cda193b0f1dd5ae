"""Side by side with the peers: each bench runs every contender in one go on one machine and prints ratios.

A bench is a module here with a docstring, whose first line says what it measures, and a function `main()`;
`BENCHES` names them. Figures of two runs or two machines are not comparable, ratios within a run are.
"""

from __future__ import annotations

BENCHES: tuple[str, ...] = ("rebalance",)
"""The modules of this package that are benches, in the order in which `make bench` runs them."""
