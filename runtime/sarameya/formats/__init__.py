"""Formats of keys and values: bytes to Python objects.

value_types       conversion to a type of the user: by msgspec, pydantic   errors   why bytes cannot be decoded
message_decoder   a message with the key and the value that a handler wants
"""
