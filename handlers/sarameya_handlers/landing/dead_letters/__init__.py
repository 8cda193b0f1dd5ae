"""Dead letters: the records that cannot land, and the places for them.

`spark/sink/link_appender.py` decides when a batch is searched for them, `spark/poison` finds them.
"""
