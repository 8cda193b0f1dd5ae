"""The interface between a sink and its table, and code that all table formats share.

table.py            the interface: Table, Landing, Phase   named.py         tables by the names that users write
foreach_batch.py    a table that is a user's callback      staged_files.py  staged files as frames
evaluation.py       rows computed without writing them     row_count.py     rows counted by the job that computes them
one_job.py          rows of several attempts in one job    settings.py      temporary Spark settings
columns.py          columns as Spark's JSON (pure)         expressions.py   names, strings and types in SQL
file_visibility.py  checks that Spark sees our files       packages.py      jars and settings that a format needs
group_lock.py       a lock held by one group of threads    staging.py       place of staged files, here and in a store

The formats have packages of their own: `spark/parquet`, `spark/delta`, `spark/iceberg`.
"""
