"""Handlers of single messages: concurrency, order by key, and retries, on top of `ConsumerGroupHandler`.

message_handler   the interface that a user implements      lanes         PURE: which message may be handled now
claim_work        the tasks that handle a claim's messages  options       what a user can set
calls             one call of `handle`: a coroutine, or a thread
"""
