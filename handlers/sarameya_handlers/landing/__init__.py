"""The exactly-once protocol of a landing: the numbered chain of links, for any kind of table. No Spark.

links.py         links, chain keys, and the note about a link in Kafka's commit metadata
chain_start.py   the start offset of a new owner of a partition, or the reason why it must not start
chain.py         one owner's attempts to append the next link, and their outcomes
errors.py        the errors that stop a chain
sizing.py        the number of bytes to collect for a file of the wanted size
files.py         durable files, and names that only one process can take
stores/          where a landed directory is: a file system, or an object store
directory/       a directory of Parquet files: chains stored as manifests, data files, schemas, compaction
dead_letters/    the interface of places for records that cannot land, and two places: a topic, and files

Words (all of them are in docs/glossary.md): a *batch* of records of one partition is written together. A *link* is one
committed batch: a number, an offset range, and the attempt that won. A *chain* is the links of one partition in one
table, and its *head* is the last one. The *sink name* distinguishes the chains of several sinks in one table. An
*attempt* is one try to append a link: several owners of a partition may try, one wins. A *restated head* is an empty
link after the head, which keeps the chain in the table's history, or stops earlier attempts.

Guarantee: the table holds each record of a partition exactly once, in links without gaps or overlaps, even if members
die, hang, or wake up late. The table must provide one thing: of all attempts to append link n, at most one succeeds.
"""
