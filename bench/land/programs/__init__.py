"""The programs that land a topic, one for each contender."""
