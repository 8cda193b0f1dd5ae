"""State of a service's members, for the status page, metrics, health, the log and the service manager.

`members` is the interface. `local_members` reads the members of this process; `worker_reports` sends their state from
workers to the supervisor. `health` and `progress_tracker` find problems in it. `recent_events` keeps the last events.
`otel` exports metrics and spans.
"""
