"""The running service: members in this process or in worker processes, from the signal handlers to the exit code.

`app_runner` puts everything together. `member_runner` runs members in this process, `supervisor` runs them as
processes, and `restarts` decides when to restart either. `watchdog`, `shutdown_check`, `problem_log` and `systemd`
watch them; `status_pages` serves the pages.
"""
