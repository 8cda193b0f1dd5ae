"""Iceberg tables: a link is a snapshot that is staged, audited and published.

table.py     the table                                   publishing.py   staging and publishing
history.py   how links are kept in snapshots, and what makes that a compare-and-swap (pure)
look.py      looking at a table, and where its chains end
marks.py     what a table's properties say of chains, for when its history has forgotten them (pure)
schema.py    columns and partitions, in Iceberg's SQL (pure)
catalog.py   which catalogs and tables will do           leftovers.py what is left behind
"""
