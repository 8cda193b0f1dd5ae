"""The commands on tables, and the arguments that they share."""
