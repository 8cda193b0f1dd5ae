"""The demo: a year of flights through an embedded broker and a group of two members into a table, and back."""
