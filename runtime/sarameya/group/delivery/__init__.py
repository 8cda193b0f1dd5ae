"""Delivery of records to handlers: batches, pauses, interceptors, and time slices."""
