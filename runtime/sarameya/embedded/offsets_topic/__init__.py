"""The `__consumer_offsets` topic: a coordinator's journal, and the format of its records. Pure."""
