"""Fetching, without I/O: positions, fetch sessions, requests, the byte budget, and fetched batches. Pure.

fetch_cursor     position of one partition, and the meaning of responses for it
fetch_session    KIP-227: partitions that the broker knows  fetch_request    encoding of the request
byte_budget      bytes shared among partitions              undecoded        fetched batches of one claim
"""
