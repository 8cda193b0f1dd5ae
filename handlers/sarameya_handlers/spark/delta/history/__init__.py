"""The history of a Delta table: its commits, and the chains in them.

log.py       commits, by SQL or from the log's files     checkpoints.py   the log's last checkpoint
commits.py   how a commit records a link (pure)          chains.py        chains, also of a restored table (pure)
summary.py   a summary of the log, for fast starts       growth.py        a warning when the log grows long
"""
