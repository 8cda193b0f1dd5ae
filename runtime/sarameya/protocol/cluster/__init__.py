"""Views of the cluster: metadata, groups and topics as brokers describe them. Pure.

metadata            brokers, topics, partitions, leaders    metadata_merger     responses merged into one view
described_groups    groups, as their coordinators see them  described_topics    topics, as the admin API shows them
offsets_partition   partition of `__consumer_offsets` that stores a group
"""
