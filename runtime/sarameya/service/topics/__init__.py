"""`sarameya topics`: shows a cluster's topics, and creates, grows and deletes them.

`command` has the arguments, `results` does the work of each command, and `report` makes text and documents (pure).
"""
