"""The parts of the group coordinator, all of them pure. `embedded/groups/group_coordinator.py` puts them together."""
