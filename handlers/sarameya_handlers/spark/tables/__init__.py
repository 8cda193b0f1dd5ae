"""What is landed in.

table.py     the seam: Table, Landing, Phase             named.py     a table told by a name, as app files do
foreach_batch.py   whatever a callback does
evaluating.py   whether it would take rows, without writing any
reach.py     whether Spark sees what we stage            lease.py     one driver a table
one_job.py   several landings' files                     settings.py  Spark's settings for the while of a block
columns.py   of rows and tables, as JSON (pure)          group_lock.py    held by threads of one group at a time

Parquet's, Delta's and Iceberg's are packages of their own: `spark/parquet`, `spark/delta`, `spark/iceberg`.
"""
