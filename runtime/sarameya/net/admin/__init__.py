"""Admin clients for groups and topics."""
