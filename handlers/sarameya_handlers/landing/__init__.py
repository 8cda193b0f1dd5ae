"""How a partition lands in a table exactly once, whatever the table: the numbered chain. No Spark; pure, but for files
and for where dead letters go.

links.py     what a table remembers of each landing, and what Kafka's commit says of it
starting.py  where a new owner of a partition begins, or why it must not
chain.py     one owner's tries to append the next link, and what came of each
manifests.py chains kept as files                schemas.py  the columns of a directory, kept as files
sizing.py    how much to collect for files of a size
compacting.py, parquet_merge.py  few files of many
errors.py    what stops a chain
dead_letters.py  where records go that cannot land; dead_letter_topic.py, dead_letter_files.py: two such places

The promise: the table holds each record of a partition exactly once, in links without gap or overlap, whatever dies,
hangs or wakes. It rests on one thing that a table must do: of all tries to append link n, at most one ever succeeds.
"""
