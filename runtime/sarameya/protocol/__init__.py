"""The pure half of the client: state machines and byte formats.

No trio, no sockets and no clock: the current time (`now`) is an argument.
"""
