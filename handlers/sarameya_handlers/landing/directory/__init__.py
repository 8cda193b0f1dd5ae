"""A landed directory: Parquet files, and the manifests that name them. Files only; no Spark, no trio.

manifests.py            chains stored as files: one manifest for each link
data_files.py           hidden while written, published once a manifest names them
schemas.py              the directory's columns, stored as files
compaction.py           merging small files; parquet_merge.py does it without changing a value
compaction_records.py   records of compactions, numbered as the links are
numbered.py             search for the last of numbered files (pure)
"""
