"""The Python contenders, each a program: `python -m bench.consume.programs.NAME TASK`; see `reading`."""
