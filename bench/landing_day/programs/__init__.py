"""The programs of a landing day."""
