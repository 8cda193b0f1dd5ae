"""Verification of a table: facts, verdict, and report.

fact_collection.py   reads the table             spans.py           offset ranges whose rows are counted together
counting.py          rows by span, with Spark    arrow_counting.py  the same without Spark
lineage.py           the columns that identify a row's record
verdict*.py          facts to findings (pure)    findings.py        codes and severities
report.py            text and JSON (pure)
"""
