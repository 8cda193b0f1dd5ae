"""A session, from its first assignment to its last commit. `machine` decides, `runner` carries out.

A rebalance with a cooperative assignor, in the order in which to read it:

    group/membership/member.py        receives REBALANCE_IN_PROGRESS, and sends the session a notice
    protocol/membership/machine.py    what the member then does about its membership
    runner.py                         takes the notice to the machine; `_carry_out` shows all commands
    machine.py                        `_take_rebalance`: join again; `_apply`: what the new assignment changes
    readers.py                        revoked partitions stop (`stop`, `drained`)
    deadline.py, shutdown.py          until when, and the commit of what they have marked (`commit_revoked`)
    partition_start.py                new partitions start

The start of one partition, from its assignment to its first message:

    machine.py                        `_applied`, `_set_up`, `_notify_assigned`, `_start`
    partition_start.py                committed offset, `handler.start_offset`, offset lookup, claim
    readers.py                        the handler's task (`ClaimReaders.start`; `stream_readers.py` for streams)
    group/claim.py                    what the handler reads
"""
