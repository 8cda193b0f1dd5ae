"""`sarameya groups`: shows a cluster's groups, and changes those without members.

Pure: `report` (state and lag of a group), `advice`, `topic_choice` and `reset` (new offsets), `tables` and `documents`
(output for people and for programs). `operations` sends the requests by `net.admin.group_admin`, in trio. `results`
combines both for each command. `arguments` and `command` are the command line.
"""
