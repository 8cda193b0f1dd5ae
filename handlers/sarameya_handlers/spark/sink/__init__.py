"""The sink: collects the records of its partitions, and flushes them into a table as links of their chains.

spark_sink.py        the handler, and start offsets          options.py       its options in an app file
sink_table.py        one table: opened, its chains read      flush_slots.py   slots that all tables share
partition_lander.py  one claim: collect, flush, mark         settings.py      settings of all partitions
buffer.py            records that are not yet due (pure)     retry.py         waits between attempts
link_appender.py     one link, attempted until it is there   flush.py         one flush, in a worker thread
flush_scheduler.py   flushes shared by several partitions    shared_spark.py  one Spark for all workers
"""
