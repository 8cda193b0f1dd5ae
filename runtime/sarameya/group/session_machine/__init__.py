"""A session, from its first assignment to its last commit. `machine` decides, `runner` executes.

A rebalance with a cooperative assignor, step by step:

    group/membership/member.py        receives REBALANCE_IN_PROGRESS, and sends the session a notice
    protocol/membership/machine.py    decides how the membership reacts
    runner.py                         passes the notice to the session's machine; `_execute` has all commands
    machine.py                        `_take_rebalance` joins again; `_apply` compares the new assignment
    readers.py                        the readers of revoked partitions stop (`stop`, `drained`)
    deadline.py, shutdown.py          the time limits, and the commit of revoked partitions (`commit_revoked`)
    partition_start.py                new partitions start

The start of one partition, from its assignment to its first message:

    machine.py                        `_finish_assignment`, `_set_up`, `_notify_assigned`, `_start`
    partition_start.py                committed offset, `handler.start_offset`, offset lookup, claim
    readers.py                        the handler's task (`ClaimReaders.start`; `stream_readers.py` for streams)
    group/claim.py                    the iterators that the handler reads
"""
