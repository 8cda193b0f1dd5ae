"""A session, from its first assignment to its last commit. `machine` decides, `runner` executes.

A rebalance with a cooperative assignor, step by step:

    protocol/membership/states.py, machine.py   REBALANCE_IN_PROGRESS: STABLE becomes REVOKING, command PrepareRebalance
    group/membership/member.py                  sends that to the session as a notice; after the sync, NewAssignment
    runner.py                                   passes notices to the machine; `_execute` has all commands
    machine.py                                  `_take_rebalance` joins again; `_apply` compares the new assignment
    readers.py                                  the readers of revoked partitions stop (`stop`, `drained`)
    deadline.py, shutdown.py                    the time limits, and the commit of revoked partitions (`commit_revoked`)
    partition_start.py                          new partitions start

The start of one partition, from its assignment to its first message:

    machine.py, runner.py                       `_finish_assignment`, `_set_up`, `_notify_assigned`, `_start`
    partition_start.py                          committed offset, start offset (group/offsets/start_offset.py), claim
    readers.py                                  the handler's task (`ClaimReaders.start`; streams: stream_readers.py)
    consumer/fetcher.py, broker_consumer.py     the fetch; partition_consumer.py passes the records on
    group/claim.py                              the iterators that the handler reads

Events, commands and jobs are in messages.py. Offsets are fetched and committed by group/offsets/offset_manager.py.
"""
