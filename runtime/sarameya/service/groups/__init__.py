"""`sarameya groups`: what a cluster's groups are doing, and changes to those without members.

Pure: `report` (what is known of a group, lag), `advice`, `scope` and `reset` (which offsets become which), `tables` and
`documents` (the same for people and for programs). `asking` is the trio shell over `net.group_admin`, `answers` puts
the two together; `arguments` and `command` are the command line.
"""
