"""The public consumer API: handler, claim, session, and the loop that runs sessions."""
