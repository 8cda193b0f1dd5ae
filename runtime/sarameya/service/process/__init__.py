"""The running service: members in this process or in workers of it, from the first signal handler to the exit code.

`app_runner` puts everything together. `member_runner` runs members here, `supervisor` runs them as processes, and
`restarts` says when to run either again. `watchdog`, `shutdown_check`, `problem_log` and `systemd` watch them;
`status_pages` serves the pages.
"""
