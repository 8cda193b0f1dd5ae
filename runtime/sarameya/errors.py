"""Errors that Sarameya raises, and the error class of each Kafka error code.

    SarameyaError
    ├── ConfigError                     an option has an invalid value (also a ValueError)
    ├── PropertiesError                 Kafka properties that cannot be options here (also a ValueError)
    ├── ConnectError                    no broker could be reached at the given addresses
    ├── AuthenticationError             a broker refuses this client, or cannot prove its own identity
    │   └── TlsError                    the TLS handshake failed
    ├── TokenError                      no credentials are available now                    (retriable)
    ├── ConnectionLostError             a connection ended with requests in flight          (retriable)
    ├── RequestTimeoutError             a broker did not respond within the deadline        (retriable)
    ├── ProtocolError                   a peer sent bytes that are not the Kafka protocol
    │   ├── ResponseTooLargeError       a response is larger than `max_response_bytes`
    │   └── UnsupportedVersionError     broker and client share no version of an API
    ├── KafkaError                      a broker returned an error code
    │   ├── UnknownTopicError
    │   ├── TopicAuthorizationError
    │   ├── TopicError                  a topic cannot be created, or changed, as requested
    │   │   └── TopicExistsError
    │   ├── MessageTooLargeError        a record is larger than the client or its topic allows
    │   └── GroupError                  the group cannot be used as configured
    │       ├── GroupAuthorizationError
    │       ├── FencedInstanceError
    │       └── CommitError             a commit was refused permanently
    ├── RetriesExhaustedError           the options allow no further retry
    ├── DeliveryTimeoutError            a record was not acknowledged in time               (retriable)
    ├── NoCommittedOffsetError          no start offset is known, and the policy is `fail`
    ├── OffsetOutOfRangeError           the position is not in the log, and the policy is `fail`
    ├── LogTruncatedError               the log was truncated below the position, and the policy is `fail`
    ├── TopicRecreatedError             the topic was deleted, and created again under its name
    ├── RecordError                     malformed records; names topic, partition, offset
    │   ├── CorruptRecordError          CRC, lengths, structure
    │   ├── UnsupportedFormatError      unknown magic or codec
    │   ├── BatchTooLargeError          a batch does not fit in a response of `max_response_bytes`
    │   └── DecompressionLimitError     a batch decompresses beyond `fetch_max_decompressed_bytes`
    ├── DecodeError                     a key or a value that is not of the handler's type
    ├── EncodeError                     a key or a value that does not have the producer's format
    ├── RegistryError                   a schema registry did not respond, or not as one    (retriable)
    │   ├── RegistryRefusedError        it refuses the credentials
    │   ├── UnknownSubjectError         it has no such subject, or no such version of it
    │   └── SchemaError                 a registered schema that cannot be used
    ├── AssignorError                   an assignor raised, or returned an invalid assignment
    ├── InterceptorError                an interceptor raised, or returned an invalid result
    ├── ClaimError                      an exception of one claim's handler, with its coordinates
    ├── RebalanceDeadlineError          a handler's task did not end by the rebalance deadline
    ├── HandlerTimeoutError             a call of `MessageHandler.handle` took too long          (retriable)
    └── HandlerError                    a handler could not be found, built or run as configured

`protocol/membership/states.py` defines how the group membership reacts to each error code.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Self

from sarameya.error_codes import ErrorCode
from sarameya.model import TopicPartition
from sarameya.secret import masked


class SarameyaError(Exception):
    """Base class of all errors that Sarameya raises.

    Attributes:
        retriable: A retry may succeed.
        permanent: A person has to change something first (the app file, an argument, credentials, a permission, the
            table, a group's offset). `sarameya run` then ends with exit code 2, and never retries. Every other error is
            passing, including errors of other packages: `sarameya run` retries with backoff under
            `on_failure = "restart"`, and ends with exit code 1 under `stop`.

    `args` are always the arguments of the class's constructor. So an error can be pickled, and several waiting callers
    can each get their own copy (`again`).
    """

    retriable: bool = False
    permanent: bool = False

    def again(self) -> Self:
        """Return a new exception with the same content, for another caller.

        If one exception were raised several times, its traceback would grow each time.
        """
        copy = type(self)(*self.args)
        copy.__cause__ = self.__cause__
        for note in getattr(self, "__notes__", ()):
            copy.add_note(note)
        return copy


class ConfigError(SarameyaError, ValueError):
    """An invalid value of an option. The message names the option, the value and the allowed values.

    A secret is shown as `***`, and so is the value of an option whose name suggests a secret.
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
    """Kafka properties that cannot be options here.

    `problems` has one line for each property: the file's name if it was read from a file, then name, value and reason.
    """

    permanent = True

    def __init__(self, problems: tuple[str, ...]) -> None:
        super().__init__(problems)
        self.problems = problems

    def __str__(self) -> str:
        return "\n".join(self.problems)


class ConnectError(SarameyaError):
    """Failure to reach any broker. The message lists each address with its cause."""

    retriable = True


class AuthenticationError(SarameyaError):
    """A broker that refuses this client, or cannot prove its own identity: a retry cannot help.

    Attributes:
        address: The broker's address.
        problem: The cause of the failure.
        remedy: Advice; may be empty.
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
    """A TLS handshake that failed: a refused certificate (the broker's or the client's), or no common TLS version."""


class TokenError(SarameyaError):
    """Credentials that are not available now: no broker can be used without them.

    `Config.sasl_token` raised or returned an invalid token, there is no Kerberos ticket, or there are no AWS
    credentials.
    """

    retriable = True


class ConnectionLostError(SarameyaError):
    """A connection that ended before the response. The request may or may not have been carried out."""

    retriable = True


class RequestTimeoutError(SarameyaError):
    """A request without a response by its deadline. It may have been carried out."""

    retriable = True


class ProtocolError(SarameyaError):
    """Received bytes that are not the Kafka protocol. The connection is closed."""


class ResponseTooLargeError(ProtocolError):
    """A response that is larger than `Config.max_response_bytes`, by its length field. The peer may not be Kafka."""


class UnsupportedVersionError(ProtocolError):
    """An API without a common version of broker and client. The message names the API and both version ranges."""

    permanent = True


class KafkaError(SarameyaError):
    """An error code returned by a broker. `code` is the number, `context` the operation."""

    def __init__(self, code: int, context: str, advice: str = "") -> None:
        super().__init__(code, context, advice)
        self.code = code
        self.context = context
        self.advice = advice

    def __str__(self) -> str:
        text = f"{self.context}: {ErrorCode.describe(self.code)}"
        return f"{text}; {self.advice}" if self.advice else text


class UnknownTopicError(KafkaError):
    """A topic that does not exist on the cluster, or that the client may not see: Kafka returns the same code."""


class TopicAuthorizationError(KafkaError):
    """A principal without the READ, WRITE or DESCRIBE ACL on the topic."""

    permanent = True


class TopicError(KafkaError):
    """A topic that the cluster does not create, or change, as requested. `advice` has the broker's message."""

    permanent = True


class TopicExistsError(TopicError):
    """Creation of a topic whose name exists already."""


class MessageTooLargeError(KafkaError):
    """A record larger than `Config.max_request_bytes`, or than its topic allows. It was not stored."""


class GroupError(KafkaError):
    """A member that the group coordinator has refused permanently."""

    permanent = True


class GroupAuthorizationError(GroupError):
    """A principal without the READ ACL on the group."""


class FencedInstanceError(GroupError):
    """Another member with the same `group_instance_id` (KIP-345)."""


class CommitError(GroupError):
    """Offsets that were not committed; a retry under this generation cannot help."""

    permanent = False  # the next generation may commit


class RetriesExhaustedError(SarameyaError):
    """An operation whose retries have reached `retry_max_attempts`, or `retry_timeout` seconds."""

    def __init__(self, what: str, attempts: int, elapsed: float, cause: str) -> None:
        super().__init__(what, attempts, elapsed, cause)
        self.what = what
        self.attempts = attempts
        self.elapsed = elapsed
        self.cause = cause

    def __str__(self) -> str:
        return f"{self.what}: failed after {self.attempts} attempts in {self.elapsed:.1f} s; last: {self.cause}"


class DeliveryTimeoutError(SarameyaError):
    """A record that was not acknowledged within `Config.delivery_timeout`. `trouble` is the last cause of the delay.

    The record may have been stored: the result of a request without a response is unknown.
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
    """Partitions without a committed offset of the group, while `Config.offset_initial` is `fail`."""

    permanent = True

    def __init__(self, group: str, partitions: tuple[TopicPartition, ...]) -> None:
        super().__init__(group, partitions)
        self.group = group
        """Group id; empty if the partitions are read without a group."""
        self.partitions = partitions

    def __str__(self) -> str:
        first = self.partitions[0]
        others = f" and {len(self.partitions) - 1} more" if self.partitions[1:] else ""
        if not self.group:
            return (
                f"no start offset for {first}{others}, and offset_initial is 'fail': pass an "
                "offset, or set offset_initial"
            )
        return (
            f"group {self.group!r} has committed no offset for {first}{others}, and offset_initial is 'fail': commit "
            f"one (sarameya groups offsets reset {self.group} --topic {first.topic} --to oldest), return one from "
            "start_offset, or set offset_initial to 'oldest', 'newest', a time or a duration"
        )


class OffsetOutOfRangeError(SarameyaError):
    """A position outside the log, while the policy is `fail`.

    `gone` is the number of deleted offsets that were not read.
    """

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
    """A log that was truncated below the position, while the policy is `fail`.

    The partition has elected a leader with fewer records (KIP-320). From `diverging_offset` on, the records that were
    read are no longer in the log; None if that offset is unknown.
    """

    permanent = True

    def __init__(self, partition: TopicPartition, offset: int, diverging_offset: int | None) -> None:
        super().__init__(partition, offset, diverging_offset)
        self.partition = partition
        self.offset = offset
        self.diverging_offset = diverging_offset

    def __str__(self) -> str:
        if self.diverging_offset is None:
            return (
                f"{self.partition}: the log does not have the records read before offset {self.offset}: undo their "
                "effects and reset the group's offset, or set offset_out_of_range to another policy than 'fail'"
            )
        return (
            f"{self.partition}: the log was truncated below offset {self.offset}. Records read from offset "
            f"{self.diverging_offset} on are not in it: undo their effects and reset the group's offset to "
            f"{self.diverging_offset}, or set offset_out_of_range to another policy than 'fail' to continue there"
        )


class TopicRecreatedError(SarameyaError):
    """A topic that was deleted and created again while it was read (KIP-516).

    Offsets of the old topic mean nothing in the new topic, and Kafka deletes committed offsets with their topic. So the
    group commits offset 0 of the new topic, unless marks have metadata: a restart reads it from the beginning.
    """

    def __init__(self, partition: TopicPartition, offset: int, before: uuid.UUID, after: uuid.UUID) -> None:
        super().__init__(partition, offset, before, after)
        self.partition = partition
        self.offset = offset
        self.before = before
        self.after = after

    def __str__(self) -> str:
        return (
            f"{self.partition}: the topic was deleted and created again while it was read (offset {self.offset}; topic "
            f"id {self.before}, now {self.after}): restart to read the new topic"
        )


class RecordError(SarameyaError):
    """Fetched bytes that are not valid records. No record from `offset` on was delivered or skipped."""

    def __init__(self, topic: str, partition: int, offset: int, problem: str) -> None:
        super().__init__(topic, partition, offset, problem)
        self.topic = topic
        self.partition = partition
        self.offset = offset
        self.problem = problem

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition} at offset {self.offset}: {self.problem}"


class CorruptRecordError(RecordError):
    """A CRC that does not match, a length beyond the end of its batch, or a broken record structure."""


class UnsupportedFormatError(RecordError):
    """A record format (magic) or compression codec that this version does not know."""


class BatchTooLargeError(RecordError):
    """A record batch that does not fit in a response of `Config.max_response_bytes`."""


class DecompressionLimitError(RecordError):
    """A batch that decompresses beyond `fetch_max_decompressed_bytes`."""


class DecodeError(SarameyaError):
    """A key or a value that is not of the type that the handler wants (`MessageHandler.value_type`).

    The same bytes fail again, so a person has to change the type, the format, or the sender; or `dead_letters` keeps
    such messages elsewhere.

    Attributes:
        partition: Topic and partition of the message.
        offset: Offset of the message.
        part: `key` or `value`.
        problem: The reason; at most a few words of it are the message's own.
        path: Place in the value, such as `$.items[0].price`; empty for the value as a whole.
    """

    permanent = True

    def __init__(self, partition: TopicPartition, offset: int, part: str, problem: str, path: str = "") -> None:
        super().__init__(partition, offset, part, problem, path)
        self.partition = partition
        self.offset = offset
        self.part = part
        self.problem = problem
        self.path = path

    def __str__(self) -> str:
        at = f" at {self.path}" if self.path else ""
        return f"{self.partition} offset {self.offset}: the {self.part} cannot be decoded{at}: {self.problem}"


class EncodeError(SarameyaError):
    """A key or a value that does not have the producer's format. Nothing was sent.

    Attributes:
        topic: Topic of the record.
        part: `key` or `value`.
        problem: The reason; at most a few words of it are the record's own.
    """

    permanent = True

    def __init__(self, topic: str, part: str, problem: str) -> None:
        super().__init__(topic, part, problem)
        self.topic = topic
        self.part = part
        self.problem = problem

    def __str__(self) -> str:
        return f"record for {self.topic}: the {self.part} cannot be encoded: {self.problem}"


class RegistryError(SarameyaError):
    """A schema registry that did not respond, or whose response cannot be understood.

    Records wait for the registry; they are not at fault. An unknown schema id is no such error: that record is bad.
    """

    retriable = True


class RegistryRefusedError(RegistryError):
    """A schema registry that refuses our credentials. A person must change them, or a permission."""

    retriable = False
    permanent = True


class UnknownSubjectError(RegistryError):
    """A subject, or a version of it, that the schema registry does not have. The configuration has to change."""

    retriable = False
    permanent = True


class SchemaError(RegistryError):
    """A registered schema that cannot be used: it is invalid, incomplete, or of another kind than the format."""

    retriable = False
    permanent = True


class AssignorError(SarameyaError):
    """An assignor that raised (`__cause__`), or returned an invalid assignment.

    The message names the assignor, and the member and the partition that are wrong.
    """

    def __init__(self, assignor: str, problem: str) -> None:
        super().__init__(assignor, problem)
        self.assignor = assignor
        self.problem = problem

    def __str__(self) -> str:
        return f"assignor {self.assignor!r}: {self.problem}"


class InterceptorError(SarameyaError):
    """An interceptor that failed (`__cause__`) on the messages from `offset` to `last_offset`.

    None of these messages was delivered or skipped. To deliver messages on which it fails unchanged, set its `on_error`
    to `skip`.
    """

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
    """An exception of a claim's handler (`__cause__`), with the claim's coordinates.

    `offset` is the claim's position: the offset of the handler's next message.
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
    """A handler's task that did not end by the rebalance deadline. The member has left the group."""


class HandlerTimeoutError(SarameyaError):
    """A call of `MessageHandler.handle` that took longer than `max_handler_time` seconds.

    `offset` is that of the message; of the first one for a call of `BatchHandler.handle_batch`.
    """

    retriable = True

    def __init__(self, partition: TopicPartition, offset: int, seconds: float) -> None:
        super().__init__(partition, offset, seconds)
        self.partition = partition
        self.offset = offset
        self.seconds = seconds

    def __str__(self) -> str:
        return f"{self.partition} offset {self.offset}: the handler has not returned within {self.seconds:g} s"


class HandlerError(SarameyaError):
    """A handler that could not be found, built or run as configured.

    The message names the package to install or the change to make. Handlers raise this error if a person has to change
    something first; all their other exceptions are retried.
    """

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
"""Advice for the user, by error code. It is appended to the error's text."""


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
    """Return the typed error for a broker's code, with advice if there is any."""
    known = ErrorCode.of(code)
    return _CLASSES.get(known, fallback)(code, context, advice.get(known, ""))


def unwrap_error(error: BaseException) -> BaseException:
    """Return the error without groups of a single error: nurseries add them."""
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error
