"""Output of commands: results, errors and exit codes, logs, progress, and the wording that they share.

Results go to stdout, all else to stderr.
"""
