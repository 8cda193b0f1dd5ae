"""Bytes of a connection: frames, requests, responses. Pure.

client_wire      requests to frames, frames to responses    frames           buffer of received bytes
bodies           decoder of message bodies                  tagged_fields    KIP-482
"""
