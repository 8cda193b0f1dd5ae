"""Handlers of messages: concurrency, order by key, and retries, on top of `ConsumerGroupHandler`.

message_handler   the interfaces that a user implements    lanes, batches   PURE: which messages may be handled now
message_options   their options, also for asyncio          options          what a user can set
handler_runner    the start, and the work on a claim       calls            calls of `handle`; processes: elsewhere
claim_work        the tasks that handle the messages       failure_policy   retries, retry topics, dead letters
circuit_breaker   an outage sends no message away          letters          failed messages as records
"""
