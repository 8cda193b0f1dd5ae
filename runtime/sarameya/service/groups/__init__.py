"""`sarameya groups`: shows a cluster's groups, and changes those without members.

Pure: `report` (state and lag of a group), `advice`, `topic_choice` and `reset` (new offsets), `tables` and `documents`
(output for people and for programs). `operations` is the trio shell over `net.group_admin`, and `results` puts both
together. `arguments` and `command` are the command line.
"""
