"""Delta Lake tables: each link is one commit.

table.py            the table                            history/          its commits, and the chains in them
spark_writer.py     creating the table and appending to it, by Spark
direct_commits.py   appending without Spark              commit_rules.py   tables that allow it (pure)
row_files.py        the files of a direct commit: written by one Spark job, or the staged files themselves
file_statistics.py  what a commit records about a file   constraints.py    conditions that a row must satisfy (pure)
place.py            a path, or a name in a catalog       checks.py         requirements on a table, its store and Spark
leftovers.py        files of attempts that lost          errors.py         Delta's error conditions
"""
