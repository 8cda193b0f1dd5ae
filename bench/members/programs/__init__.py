"""The members in Python, each a program: `python -m bench.members.programs.NAME TASK`; see `bench.members.protocol`."""
