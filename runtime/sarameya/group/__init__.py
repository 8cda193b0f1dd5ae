"""The consumer group as its users see it: handler, claim, session, and the loop that joins them."""
