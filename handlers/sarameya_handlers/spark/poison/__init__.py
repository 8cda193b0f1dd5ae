"""Records that cannot be written to the table.

poison_search.py   the records of a failed link that are at fault, and the remaining ones
bisection.py       the search by halves (pure)
"""
