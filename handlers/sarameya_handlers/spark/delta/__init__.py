"""Delta Lake tables: a link is a commit of its own.

table.py     the table                                   writing.py   created, and appended to, by Spark
rows.py      landings' files, by one job of Spark's or as they were staged
adopting.py  their commits, without Spark               terms.py     which tables' commits may be so (pure)
file_facts.py    what a commit says of a file
commits.py   how a link is written into a commit, and read back (pure)
chains.py    chains in the history, also of a table that was restored (pure)
log.py       the history: by SQL, or from the log's files
place.py     a path, or a name in a catalog              checks.py    which tables, stores and Sparks will do
constraints.py   what it requires of each row (pure)
leftovers.py what is left behind                         errors.py    what Delta's errors say
"""
