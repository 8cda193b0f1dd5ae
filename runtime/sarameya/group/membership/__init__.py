"""Membership: the member's task, the leader's assignments, the coordinator, and the subscription.

The state machine behind it is `sarameya.protocol.membership`.
"""
