"""The interface between a sink and its table, and code that all table formats share.

table.py            the interface: Table, Landing, Phase   named.py           tables by the names that users write
staging.py          staged files, here and in a store      staged_records.py  their records, as frames and columns
evaluation.py       rows computed without writing them     row_count.py       rows counted by the job that computes them
one_job.py          rows of several attempts in one job    settings.py        temporary Spark settings
columns.py          columns as Spark's JSON (pure)         expressions.py     names, strings and types in SQL
file_visibility.py  checks that Spark sees our files       packages.py        jars and settings that a format needs
group_lock.py       a lock held by one group of threads    store_checks.py    trust in an object store's puts
foreach_batch.py    a table that is a user's callback

The formats have packages of their own: `spark/parquet`, `spark/delta`, `spark/iceberg`.
"""
