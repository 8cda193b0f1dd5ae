"""`sarameya letters`: shows topics of dead letters, and sends the letters back.

`command` has the arguments. `results` does the work of `list` and `show`, `redrive` that of its command; both read with
`log_reader`. Pure: `filters`, `summary` (output of `list`), `letter_text` (output of `show`), `redrive_rules` (what is
sent, and where to), `redrive_progress` (which letters have been sent), `redrive_report` and `tally`. `progress_store`
keeps the progress.
"""
