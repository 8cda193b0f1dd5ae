"""The group coordinator of one broker (classic protocol). Pure: no clock, no I/O.

| module | job |
|---|---|
| `group_coordinator` | the entry point that `apis` calls; owns the groups |
| `join_processor`, `leave_processor` | JoinGroup and LeaveGroup |
| `rebalancer` | a rebalance from its cause to the assignment; SyncGroup |
| `heartbeat_checks` | the response to a heartbeat, as a table |
| `member_sessions` | session timeouts |
| `offset_store`, `offset_rules`, `retention` | OffsetCommit and OffsetDelete; expiry of offsets |
| `pending_replies` | results to deliver after a change is complete |
| `views` | conversion of a group to responses and records |
| `config` | settings |
| `model/` | groups, members, states, requests and results |
"""
