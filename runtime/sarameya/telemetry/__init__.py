"""Export of a member's status and meters to monitoring systems.

Each module needs a library from the extra `service` or `otel`; nothing is imported before it is needed.
"""
