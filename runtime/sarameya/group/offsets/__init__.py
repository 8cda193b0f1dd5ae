"""Offsets: marks, commits, start offsets, and the facts about logs that they need."""
