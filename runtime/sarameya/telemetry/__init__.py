"""A member's status and meters in the words of monitoring systems. Each module needs a library of its own, which the
extra `service` or `otel` brings; nothing is imported before it is wanted."""
