"""`sarameya dashboard`: a whole group on one page, from Kafka and from the endpoints of its members.

`command` is the command line. `group_board` updates the page every two seconds. `endpoints` requests the documents of
members' services, and `endpoint_document` checks them (pure). `group_document` merges all into one document (pure).
"""
