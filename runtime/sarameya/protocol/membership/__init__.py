"""Membership of a consumer group as a pure state machine: events in, requests out."""
