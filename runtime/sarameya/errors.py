"""Every error Sarameya raises, and which of them each Kafka error code is.

    SarameyaError
    ├── ConfigError                     an option has a value it may not have (also a ValueError)
    ├── PropertiesError                 properties of Kafka's that cannot be options here (also a ValueError)
    ├── ConnectError                    no broker could be reached at the addresses given
    ├── AuthenticationError             a broker does not take who we are, or is not shown to be who it should be
    │   └── TlsError                    by certificates
    ├── TokenError                      there is no token to show a broker now             (retriable)
    ├── ConnectionLostError             a connection ended with requests in flight          (retriable)
    ├── RequestTimeoutError             a broker did not answer within the deadline         (retriable)
    ├── ProtocolError                   bytes that are no Kafka answer
    │   ├── ResponseTooLargeError       an answer is larger than `max_response_bytes`
    │   └── UnsupportedVersionError     broker and client share no version of an API
    ├── KafkaError                      a broker answered with an error code
    │   ├── UnknownTopicError
    │   ├── TopicAuthorizationError
    │   ├── TopicError                  a topic cannot be made, or changed, as asked for
    │   │   └── TopicExistsError
    │   ├── MessageTooLargeError        a record is larger than may be sent, or than its topic takes
    │   └── GroupError                  the group cannot be used as configured
    │       ├── GroupAuthorizationError
    │       ├── FencedInstanceError
    │       └── CommitError             a commit was refused for good
    ├── RetriesExhaustedError           what was tried again as often, or for as long, as the options allow
    ├── DeliveryTimeoutError            a record was not acknowledged in time                   (retriable)
    ├── NoCommittedOffsetError          nothing says where to begin, and the policy is `fail`
    ├── OffsetOutOfRangeError           the position is not in the log and the policy is `fail`
    ├── LogTruncatedError               the log was cut below the position and the policy is `fail`
    ├── TopicRecreatedError             the topic was deleted, and made again under its name
    ├── RecordError                     bytes that are no records; names topic, partition, offset
    │   ├── CorruptRecordError          CRC, lengths, structure
    │   ├── UnsupportedFormatError      unknown magic or codec
    │   ├── BatchTooLargeError          a batch does not fit into an answer of `max_response_bytes`
    │   └── DecompressionLimitError     a batch grows beyond `fetch_max_decompressed_bytes`
    ├── AssignorError                   an assignor raised, or assigns what cannot be
    ├── InterceptorError                an interceptor raised, or gave back what cannot be
    ├── ClaimError                      what one claim's handler raised, with its coordinates
    ├── RebalanceDeadlineError          a handler's task outlived the rebalance deadline
    └── HandlerError                    a handler could not be found, built or run as configured

How the group's membership meets a code is `protocol/reactions.py`'s.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Self

from sarameya.error_codes import ErrorCode
from sarameya.model import TopicPartition
from sarameya.secret import masked


class SarameyaError(Exception):
    """The root of everything raised here. `retriable`: trying the same again may succeed.

    `permanent`: a person has to change something first (the app file, an argument, credentials, a permission, the
    table, a group's offset). `sarameya run` then ends with exit code 2, and never retries. Every other error passes,
    also one that is not Sarameya's: it is retried with backoff under `on_failure = "restart"`, and exit code 1 under
    `stop`.

    `args` are always a class's own arguments, so that an error can be pickled, and raised afresh to each of
    several waiters (`again`).
    """

    retriable: bool = False
    permanent: bool = False

    def again(self) -> Self:
        """A fresh exception of the same content, for another waiter: tracebacks do not pile up on one object."""
        fresh = type(self)(*self.args)
        fresh.__cause__ = self.__cause__
        for note in getattr(self, "__notes__", ()):
            fresh.add_note(note)
        return fresh


class ConfigError(SarameyaError, ValueError):
    """An option's value is not allowed. Names the option, the value and what is allowed.

    A value that is a secret, or looks like one by its option's name, is not in it: `***` stands in its place.
    """

    permanent = True

    def __init__(self, option: str, value: object, allowed: str) -> None:
        value = masked(option, value)
        super().__init__(option, value, allowed)
        self.option = option
        self.value = value
        self.allowed = allowed

    def __str__(self) -> str:
        return f"{self.option} = {self.value!r}: {self.allowed}"


class PropertiesError(SarameyaError, ValueError):
    """Properties by Kafka's names that cannot be options here. `problems` holds one line for each, by name, value and
    reason, after the file's name where they come from one."""

    permanent = True

    def __init__(self, problems: tuple[str, ...]) -> None:
        super().__init__(problems)
        self.problems = problems

    def __str__(self) -> str:
        return "\n".join(self.problems)


class ConnectError(SarameyaError):
    """No broker could be reached. The message lists each address with its cause."""

    retriable = True


class AuthenticationError(SarameyaError):
    """A broker does not take who we are, or has not shown that it is who it should be: trying again cannot help.

    `address` is the broker's, `problem` what is wrong, `remedy` what can be done about it.
    """

    permanent = True

    def __init__(self, address: str, problem: str, remedy: str = "") -> None:
        super().__init__(address, problem, remedy)
        self.address = address
        self.problem = problem
        self.remedy = remedy

    def __str__(self) -> str:
        return f"{self.address}: {self.problem}" + (f"; {self.remedy}" if self.remedy else "")


class TlsError(AuthenticationError):
    """A certificate was not taken, the broker's by us or ours by the broker; or the two cannot speak TLS together."""


class TokenError(SarameyaError):
    """There is nothing to show brokers, and none can be told who we are until there is: `Config.sasl_token` raised, or
    gave what is no token; there is no Kerberos ticket; there are no AWS credentials."""

    retriable = True


class ConnectionLostError(SarameyaError):
    """A connection ended while an answer was awaited. The request may or may not have been carried out."""

    retriable = True


class RequestTimeoutError(SarameyaError):
    """A broker did not answer within the request's deadline. The request may have been carried out."""

    retriable = True


class ProtocolError(SarameyaError):
    """The peer sent bytes that are not the Kafka protocol; its connection is closed."""


class ResponseTooLargeError(ProtocolError):
    """The peer announced an answer larger than `Config.max_response_bytes` (or is no Kafka broker)."""


class UnsupportedVersionError(ProtocolError):
    """Broker and client have no version of an API in common. Names the API and both ranges."""


class KafkaError(SarameyaError):
    """A broker answered with an error code. `code` is the number, `context` what was being done."""

    def __init__(self, code: int, context: str, advice: str = "") -> None:
        super().__init__(code, context, advice)
        self.code = code
        self.context = context
        self.advice = advice

    def __str__(self) -> str:
        text = f"{self.context}: {ErrorCode.describe(self.code)}"
        return f"{text}; {self.advice}" if self.advice else text


class UnknownTopicError(KafkaError):
    """The topic does not exist on the cluster (or may not be seen, which Kafka answers alike)."""


class TopicAuthorizationError(KafkaError):
    """The principal may not use the topic: it lacks the READ, WRITE or DESCRIBE ACL on it."""

    permanent = True


class TopicError(KafkaError):
    """The cluster does not make the topic, or change it, as asked for; its own words are in the advice."""

    permanent = True


class TopicExistsError(TopicError):
    """There is a topic of this name already."""


class MessageTooLargeError(KafkaError):
    """A record is larger than `Config.max_request_bytes`, or than its topic takes: it was not stored."""


class GroupError(KafkaError):
    """The group coordinator refused this member for good."""

    permanent = True


class GroupAuthorizationError(GroupError):
    """The principal may not use the group: it lacks the READ ACL on it."""


class FencedInstanceError(GroupError):
    """Another member joined with the same `group_instance_id` (KIP-345)."""


class CommitError(GroupError):
    """Offsets were not committed, and trying again under this generation cannot help."""

    permanent = False  # the next generation may commit


class RetriesExhaustedError(SarameyaError):
    """Tried as often, or for as long (seconds), as `retry_max_attempts` or `retry_timeout` allow."""

    def __init__(self, what: str, attempts: int, elapsed: float, cause: str) -> None:
        super().__init__(what, attempts, elapsed, cause)
        self.what = what
        self.attempts = attempts
        self.elapsed = elapsed
        self.cause = cause

    def __str__(self) -> str:
        return f"{self.what}: gave up after {self.attempts} tries in {self.elapsed:.1f} s; last: {self.cause}"


class DeliveryTimeoutError(SarameyaError):
    """A record was not acknowledged in `Config.delivery_timeout`. `trouble` is what was last in the way.

    It may have been stored all the same: what was sent, and not answered, is not known.
    """

    retriable = True

    def __init__(self, what: str, timeout: float, trouble: str) -> None:
        super().__init__(what, timeout, trouble)
        self.what = what
        self.timeout = timeout
        self.trouble = trouble

    def __str__(self) -> str:
        return f"{self.what}: not acknowledged in {self.timeout:g} s (delivery_timeout): {self.trouble}"


class NoCommittedOffsetError(SarameyaError):
    """The group has committed nothing for these partitions, and `Config.offset_initial` is `fail`."""

    permanent = True

    def __init__(self, group: str, partitions: tuple[TopicPartition, ...]) -> None:
        super().__init__(group, partitions)
        self.group = group
        """Empty where partitions are read without one."""
        self.partitions = partitions

    def __str__(self) -> str:
        first = self.partitions[0]
        others = f" and {len(self.partitions) - 1} more" if self.partitions[1:] else ""
        if not self.group:
            return (
                f"nothing says where to begin to read {first}{others}, and offset_initial is 'fail': say at which "
                "offset, or set offset_initial"
            )
        return (
            f"group {self.group!r} has committed no offset for {first}{others}, and offset_initial is 'fail': commit "
            f"one (sarameya groups offsets reset {self.group} --topic {first.topic} --to oldest), return one from "
            "start_offset, or set offset_initial to 'oldest', 'newest', a time or a duration"
        )


class OffsetOutOfRangeError(SarameyaError):
    """The position is outside the log and the policy is `fail`. `gone`: so many offsets behind it were deleted before
    they were read."""

    permanent = True

    def __init__(self, partition: TopicPartition, offset: int, log_start: int, log_end: int) -> None:
        super().__init__(partition, offset, log_start, log_end)
        self.partition = partition
        self.offset = offset
        self.log_start = log_start
        self.log_end = log_end
        self.gone = max(log_start - offset, 0)

    def __str__(self) -> str:
        gone = f" ({self.gone} offsets were deleted unread)" if self.gone else ""
        return (
            f"{self.partition}: offset {self.offset} is outside the log [{self.log_start}, {self.log_end}){gone}; "
            "set offset_out_of_range to 'oldest', 'newest', a time or a duration, or reset the group's offset"
        )


class LogTruncatedError(SarameyaError):
    """The log was cut below the position, by an election of a leader that had less of it (KIP-320), and the policy is
    `fail`. What was read from `diverging_offset` on is not what stands in the log now (None: nobody knows where)."""

    permanent = True

    def __init__(self, partition: TopicPartition, offset: int, diverging_offset: int | None) -> None:
        super().__init__(partition, offset, diverging_offset)
        self.partition = partition
        self.offset = offset
        self.diverging_offset = diverging_offset

    def __str__(self) -> str:
        if self.diverging_offset is None:
            return (
                f"{self.partition}: the log knows nothing of what was read before offset {self.offset}: undo what came "
                "of it and reset the group's offset, or set offset_out_of_range to anything but 'fail' to go on by that"
            )
        return (
            f"{self.partition}: the log was cut below offset {self.offset} and differs from offset "
            f"{self.diverging_offset} on from what was read: undo what came of that and reset the group's offset to "
            f"{self.diverging_offset}, or set offset_out_of_range to anything but 'fail' to go on there by itself"
        )


class TopicRecreatedError(SarameyaError):
    """The topic that was read is gone, and another one has its name (KIP-516): offsets of the one say nothing of the
    other. Whoever reads on begins anew: Kafka deletes a topic's committed offsets with it."""

    def __init__(self, partition: TopicPartition, offset: int, before: uuid.UUID, after: uuid.UUID) -> None:
        super().__init__(partition, offset, before, after)
        self.partition = partition
        self.offset = offset
        self.before = before
        self.after = after

    def __str__(self) -> str:
        return (
            f"{self.partition}: the topic was deleted and made again while it was read (at offset {self.offset}; topic "
            f"id {self.before}, now {self.after}): start again to read the new one from where offset_initial says"
        )


class RecordError(SarameyaError):
    """Fetched bytes that are no records. Nothing behind `offset` was delivered or skipped."""

    def __init__(self, topic: str, partition: int, offset: int, problem: str) -> None:
        super().__init__(topic, partition, offset, problem)
        self.topic = topic
        self.partition = partition
        self.offset = offset
        self.problem = problem

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition} at offset {self.offset}: {self.problem}"


class CorruptRecordError(RecordError):
    """A CRC that does not match, a length that runs out of its batch, or a broken record structure."""


class UnsupportedFormatError(RecordError):
    """A record format (magic) or compression codec that this version does not know."""


class BatchTooLargeError(RecordError):
    """A record batch does not fit into an answer of `Config.max_response_bytes`."""


class DecompressionLimitError(RecordError):
    """A batch decompresses beyond `fetch_max_decompressed_bytes`."""


class AssignorError(SarameyaError):
    """An assignor raised something (`__cause__`), or gave back what cannot be. Names the assignor, and the member and
    the partition that it is about."""

    def __init__(self, assignor: str, problem: str) -> None:
        super().__init__(assignor, problem)
        self.assignor = assignor
        self.problem = problem

    def __str__(self) -> str:
        return f"assignor {self.assignor!r}: {self.problem}"


class InterceptorError(SarameyaError):
    """An interceptor failed (`__cause__`) on the messages from `offset` to `last_offset`. None of them was handed out,
    none is skipped. Set its `on_error` to `skip` to go on without it."""

    def __init__(
        self, interceptor: str, partition: TopicPartition, offset: int, last_offset: int, cause: Exception
    ) -> None:
        super().__init__(interceptor, partition, offset, last_offset, cause)
        self.interceptor = interceptor
        self.partition = partition
        self.offset = offset
        self.last_offset = last_offset
        self.cause = cause

    def __str__(self) -> str:
        where = f"{self.partition}, offsets {self.offset} to {self.last_offset}"
        return f"interceptor {self.interceptor}, {where}: {type(self.cause).__name__}: {self.cause}"


class ClaimError(SarameyaError):
    """What a claim's handler raised (`__cause__`), with where it stood.

    `offset` is the claim's position: the next offset its handler would have been given.
    """

    def __init__(self, partition: TopicPartition, offset: int, generation: int, cause: BaseException) -> None:
        super().__init__(partition, offset, generation, cause)
        self.partition = partition
        self.offset = offset
        self.generation = generation
        self.cause = cause

    def __str__(self) -> str:
        where = f"{self.partition} at offset {self.offset}, generation {self.generation}"
        return f"{where}: {type(self.cause).__name__}: {self.cause}"


class RebalanceDeadlineError(SarameyaError):
    """A handler's task went on beyond the rebalance deadline; the member has left the group."""


class HandlerError(SarameyaError):
    """A handler could not be found, built or run as configured. Says what to install or change. A handler raises it for
    what a person has to change first; everything else that it raises is retried."""

    permanent = True


ADVICE: dict[ErrorCode, str] = {
    ErrorCode.FENCED_INSTANCE_ID: "another member uses the same group_instance_id; give each member its own",
    ErrorCode.GROUP_AUTHORIZATION_FAILED: "grant this principal READ on the group",
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "grant this principal READ and DESCRIBE on the topic",
    ErrorCode.INCONSISTENT_GROUP_PROTOCOL: (
        "the members of this group share no assignor; set the same rebalance_strategies on all of them"
    ),
    ErrorCode.INVALID_SESSION_TIMEOUT: (
        "session_timeout is outside the broker's group.min.session.timeout.ms..group.max.session.timeout.ms"
    ),
    ErrorCode.GROUP_MAX_SIZE_REACHED: "the group is full; raise the broker's group.max.size or run fewer members",
    ErrorCode.INVALID_GROUP_ID: "the group id is empty or not allowed",
    ErrorCode.OFFSET_METADATA_TOO_LARGE: "shorten the metadata (the broker's offset.metadata.max.bytes)",
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "create the topic, or correct its name",
}
"""What a person can do about a code; appended to the error's text."""


_CLASSES: dict[ErrorCode, type[KafkaError]] = {
    ErrorCode.FENCED_INSTANCE_ID: FencedInstanceError,
    ErrorCode.GROUP_AUTHORIZATION_FAILED: GroupAuthorizationError,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: TopicAuthorizationError,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: UnknownTopicError,
    ErrorCode.INVALID_TOPIC_EXCEPTION: UnknownTopicError,
    ErrorCode.MESSAGE_TOO_LARGE: MessageTooLargeError,
}


def kafka_error(
    code: int, context: str, fallback: type[KafkaError] = KafkaError, advice: Mapping[ErrorCode, str] = ADVICE
) -> KafkaError:
    """The typed error for a broker's code, with advice where there is any."""
    known = ErrorCode.of(code)
    return _CLASSES.get(known, fallback)(code, context, advice.get(known, ""))
