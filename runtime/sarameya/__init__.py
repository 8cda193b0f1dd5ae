"""Sarameya: a Kafka consumer-group runtime on trio.

group/      what you write and hold: ConsumerGroup, ConsumerGroupHandler, Session, Claim; Consumer
consumer/   fetching and fanning out      net/       connections, metadata, the coordinator
protocol/   pure state machines, formats  embedded/  a broker in the process
model, errors, config, observe            testing/   the test kit        service/  the command line
"""

from sarameya._version import __version__
from sarameya.config import Config, TopicConfig
from sarameya.error_codes import ErrorCode
from sarameya.errors import (
    AssignorError,
    BatchTooLargeError,
    ClaimError,
    CommitError,
    ConfigError,
    ConnectError,
    ConnectionLostError,
    CorruptRecordError,
    DecompressionLimitError,
    FencedInstanceError,
    GroupAuthorizationError,
    GroupError,
    HandlerError,
    InterceptorError,
    KafkaError,
    LogTruncatedError,
    NoCommittedOffsetError,
    OffsetOutOfRangeError,
    ProtocolError,
    RebalanceDeadlineError,
    RecordError,
    RequestTimeoutError,
    ResponseTooLargeError,
    RetriesExhaustedError,
    SarameyaError,
    TopicAuthorizationError,
    TopicRecreatedError,
    UnknownTopicError,
    UnsupportedFormatError,
    UnsupportedVersionError,
)
from sarameya.group.claim import Claim, ClaimBatches, ClaimMessages
from sarameya.group.consumer_group import ConsumerGroup
from sarameya.group.handler import ConsumerGroupHandler, StreamHandler
from sarameya.group.interceptors import ConsumerInterceptor
from sarameya.group.pauses import Paused
from sarameya.group.session import Session
from sarameya.group.standalone import Consumer
from sarameya.group.stream import Stream, StreamBatches, StreamMessages
from sarameya.message_batch import MessageBatch
from sarameya.model import (
    Assignment,
    CommittedOffset,
    Generation,
    GroupMetadata,
    Message,
    TimestampType,
    TopicPartition,
)
from sarameya.net.transport import TcpTransport, Transport
from sarameya.observe import Event, Observer, log_event
from sarameya.option_kinds import unknown_option
from sarameya.protocol.assignors import (
    Assignor,
    CooperativeStickyAssignor,
    RangeAssignor,
    RebalanceProtocol,
    RoundRobinAssignor,
    StickyAssignor,
    Subscription,
    TopicLayout,
)

__all__ = [
    "Assignment",
    "Assignor",
    "AssignorError",
    "BatchTooLargeError",
    "Claim",
    "ClaimBatches",
    "ClaimError",
    "ClaimMessages",
    "CommitError",
    "CommittedOffset",
    "Config",
    "ConfigError",
    "ConnectError",
    "ConnectionLostError",
    "Consumer",
    "ConsumerGroup",
    "ConsumerGroupHandler",
    "ConsumerInterceptor",
    "CooperativeStickyAssignor",
    "CorruptRecordError",
    "DecompressionLimitError",
    "ErrorCode",
    "Event",
    "FencedInstanceError",
    "Generation",
    "GroupAuthorizationError",
    "GroupError",
    "GroupMetadata",
    "HandlerError",
    "InterceptorError",
    "KafkaError",
    "LogTruncatedError",
    "Message",
    "MessageBatch",
    "NoCommittedOffsetError",
    "Observer",
    "OffsetOutOfRangeError",
    "Paused",
    "ProtocolError",
    "RangeAssignor",
    "RebalanceDeadlineError",
    "RebalanceProtocol",
    "RecordError",
    "RequestTimeoutError",
    "ResponseTooLargeError",
    "RetriesExhaustedError",
    "RoundRobinAssignor",
    "SarameyaError",
    "Session",
    "StickyAssignor",
    "Stream",
    "StreamBatches",
    "StreamHandler",
    "StreamMessages",
    "Subscription",
    "TcpTransport",
    "TimestampType",
    "TopicAuthorizationError",
    "TopicConfig",
    "TopicLayout",
    "TopicPartition",
    "TopicRecreatedError",
    "Transport",
    "UnknownTopicError",
    "UnsupportedFormatError",
    "UnsupportedVersionError",
    "__version__",
    "log_event",
    "unknown_option",
]
