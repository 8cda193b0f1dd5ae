"""Delta Lake tables: each link is one commit.

table.py            the table
spark_writer.py     creating the table and appending to it, by Spark
direct_commits.py   appending without Spark              commit_rules.py   tables that allow it (pure)
row_files.py        the files of a direct commit: written by one Spark job, or as they were staged
file_statistics.py  what a commit records about a file
commits.py          how a commit records a link, and how it is read back (pure)
chains.py           chains in the history, also of a restored table (pure)
log.py              the history, by SQL or from the log's files
checkpoints.py      the log's last checkpoint            summary.py       a summary of the log, so that starts stay fast
growth.py           a warning when the log grows long    leftovers.py     files of attempts that lost or did not end
place.py            a path, or a name in a catalog       checks.py        tables, stores and Sparks that are refused
constraints.py      conditions that a row must satisfy   errors.py        Delta's error conditions
"""
