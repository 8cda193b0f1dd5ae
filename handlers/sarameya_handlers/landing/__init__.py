"""The exactly-once protocol of a landing: the numbered chain of links, for any kind of table. No Spark.

links.py         links, chain keys, and the note about a link in Kafka's commit metadata
starting.py      the start offset of a new owner of a partition, or the reason why it must not start
chain.py         one owner's attempts to append the next link, and their outcomes
manifests.py     chains stored as files           schemas.py  the columns of a directory, stored as files
sizing.py        the number of bytes to collect for a file of the wanted size
compacting.py    merging small files; parquet_merge.py does it without changing a value
dead_letters.py  the interface of places for records that cannot land; dead_letter_topic.py and dead_letter_files.py
                 are two of them
errors.py        the errors that stop a chain

Guarantee: the table holds each record of a partition exactly once, in links without gaps or overlaps, even if members
die, hang, or wake up late. The table must provide one thing: of all attempts to append link n, at most one succeeds.
"""
