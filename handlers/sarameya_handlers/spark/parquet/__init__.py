"""A directory of Parquet files: a link is a manifest that names its files.

table.py     the table                                   writing.py   a landing's files, by Spark or as they were staged
reading.py   the rows of links                           leftovers.py what is left behind
schema.py    the columns that the directory has, and what is made to fit them

Chains, manifests and data files themselves are `landing/`'s, which knows no Spark.
"""
