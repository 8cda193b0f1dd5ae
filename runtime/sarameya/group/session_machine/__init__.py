"""A session, from its first assignment to its last commit. `machine` decides, `runner` executes.

A rebalance with a cooperative assignor, step by step:

    protocol/membership/machine.py, states.py   REBALANCE_IN_PROGRESS: STABLE becomes REVOKING, command PrepareRebalance
    group/membership/member.py                  sends PrepareRebalance to the session; after the sync, NewAssignment
    runner.py                                   passes both to the machine; `_execute`: commands, `_run_job`: jobs
    machine.py, transitions.py                  `_take_rebalance` sends JoinGroup; `_apply` compares the new assignment
    deadline.py                                 the time limits of the revocation
    readers.py                                  the readers of revoked partitions stop (`stop`, `drained`)
    partition_start.py                          new partitions start

`runner.py`, `member.py` and `readers.py` only carry out what the others decide.

The start of one partition, from its assignment to its first message:

    machine.py, runner.py                       `_finish_assignment`, `_set_up`, `_notify_assigned`, `_start`
    partition_start.py                          committed offset, start offset, claim
    readers.py                                  the handler's task, which calls `consume_claim` (`ClaimReaders.start`)

By name only: `Fetcher.feed` fetches the partition, `Claim` has the iterators, `StreamReaders` has the tasks of streams.

Events, commands and jobs are in messages.py. Offsets are fetched and committed by group/offsets/offset_manager.py.
"""
