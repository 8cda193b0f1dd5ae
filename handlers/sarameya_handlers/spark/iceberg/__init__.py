"""Iceberg tables: each link is a snapshot that is staged, audited and published.

table.py                the table                       write_audit_publish.py   staging and publishing of snapshots
history.py              links in snapshots, and the reason why publishing is a compare-and-swap (pure)
table_state.py          a table's properties and snapshots at one moment
marks.py                chains in the table's properties, needed after snapshots have expired (pure)
schema.py               columns and partitions in Iceberg's SQL (pure)
catalog.py              requirements on catalogs and tables             leftovers.py   files of attempts that lost
"""
