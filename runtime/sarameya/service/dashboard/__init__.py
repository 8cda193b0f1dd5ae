"""`sarameya dashboard`: a whole group on one page, from Kafka and from its members' own endpoints.

command.py   the command line           group_board.py  looks each two seconds, and has ready what is asked for
endpoints.py asks members' services     reading.py      what they answer, as documents, or why it is none (pure)
merging.py   both together, as one document (pure)
"""
