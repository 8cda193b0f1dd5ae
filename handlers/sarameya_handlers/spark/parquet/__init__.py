"""A directory of Parquet files: each link is a manifest that names its files.

table.py       the table                              file_writer.py   files of a link: by Spark, or the staged files
reader.py      the rows of links                      leftovers.py     files of attempts that lost or did not end
schema.py      the directory's columns, and the conversion of rows to them

Chains, manifests and data files are in `landing/`, which does not use Spark.
"""
