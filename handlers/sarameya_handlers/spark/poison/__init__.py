"""Records that Spark can make nothing of.

finding.py   which records of a link that did not land are at fault, and what is left of it
bisecting.py the search, by halves (pure)                blame.py     whose fault an error is
"""
