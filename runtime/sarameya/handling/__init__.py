"""Handlers of single messages: concurrency, order by key, and retries, on top of `ConsumerGroupHandler`.

message_handler   the interface that a user implements      lanes         PURE: which message may be handled now
message_options   its options, also for asyncio             options       what a user can set
claim_work        the tasks that handle a claim's messages  calls         calls of `handle`; processes: elsewhere
"""
