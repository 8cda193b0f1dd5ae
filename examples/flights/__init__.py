"""The demo: lands a year of flights from an embedded broker in a table, with two members, and verifies the table."""
