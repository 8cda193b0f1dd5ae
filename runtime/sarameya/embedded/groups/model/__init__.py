"""A group as data: members, states, requests and results, and the part that the log stores. Pure."""
