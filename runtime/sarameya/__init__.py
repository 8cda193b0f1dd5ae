"""Sarameya: a Kafka consumer-group runtime on trio.

group/      the public consumer API: ConsumerGroup, ConsumerGroupHandler, Session, Claim; Consumer
handling/   handlers of single messages: MessageHandler
producer/   the public producer API: Producer
consumer/   fetching from brokers         net/       connections, metadata, the coordinator
protocol/   pure state machines, formats  embedded/  a broker in the process
model, errors, config, observe            testing/   the test kit        service/  the command line
"""

from typing import TYPE_CHECKING

from sarameya import _kafka_python as _kafka_python  # must precede every import of kafka-python
from sarameya._version import __version__
from sarameya.exports import lazy_names

if TYPE_CHECKING:
    from sarameya.config import ClientProperties, Config, TopicConfig
    from sarameya.error_codes import ErrorCode
    from sarameya.errors import (
        AssignorError,
        AuthenticationError,
        BatchTooLargeError,
        ClaimError,
        CommitError,
        ConfigError,
        ConnectError,
        ConnectionLostError,
        CorruptRecordError,
        DecodeError,
        DecompressionLimitError,
        DeliveryTimeoutError,
        EncodeError,
        FencedInstanceError,
        GroupAuthorizationError,
        GroupError,
        HandlerError,
        HandlerTimeoutError,
        InterceptorError,
        KafkaError,
        LogTruncatedError,
        MessageTooLargeError,
        NoCommittedOffsetError,
        OffsetOutOfRangeError,
        PropertiesError,
        ProtocolError,
        RebalanceDeadlineError,
        RecordError,
        RegistryError,
        RegistryRefusedError,
        RequestTimeoutError,
        ResponseTooLargeError,
        RetriesExhaustedError,
        SarameyaError,
        SchemaError,
        TlsError,
        TokenError,
        TopicAuthorizationError,
        TopicRecreatedError,
        UnknownSubjectError,
        UnknownTopicError,
        UnsupportedFormatError,
        UnsupportedVersionError,
    )
    from sarameya.extras import install_command
    from sarameya.formats.format import Format
    from sarameya.group.claim import Claim, ClaimBatches, ClaimMessages, ConcurrentMessages
    from sarameya.group.consumer_group import ConsumerGroup
    from sarameya.group.delivery.interceptors import ConsumerInterceptor
    from sarameya.group.delivery.pauses import Paused
    from sarameya.group.delivery.report import Report
    from sarameya.group.handler import ConsumerGroupHandler, StreamHandler
    from sarameya.group.session import Session
    from sarameya.group.standalone import Consumer
    from sarameya.group.stream import Stream, StreamBatches, StreamMessages
    from sarameya.handling.letters import FailedMessage
    from sarameya.handling.message_handler import BatchHandler, MessageHandler
    from sarameya.handling.options import CircuitBreaker, DeadLetterTopic, Retry, RetryTopics
    from sarameya.message_batch import MessageBatch
    from sarameya.meters import Histogram, Meters, TopicMeters
    from sarameya.model import (
        Assignment,
        CommittedOffset,
        Generation,
        GroupMetadata,
        LogRange,
        Message,
        TimestampType,
        TopicPartition,
    )
    from sarameya.net.admin.group_admin import GroupAdmin
    from sarameya.net.log_offsets import LOG_END, LOG_START, LogOffsets
    from sarameya.net.transport import TcpTransport, Transport
    from sarameya.observe import (
        DeadLettered,
        Event,
        Landed,
        LandingFailed,
        LandingStarted,
        Observer,
        SentToRetry,
        StoreUsed,
        TableGrown,
        log_event,
    )
    from sarameya.option_kinds import unknown_option
    from sarameya.producer.producer import Producer
    from sarameya.producer.record import ProducerRecord, RecordMetadata
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
    from sarameya.protocol.cluster.described_groups import DescribedGroup, DescribedMember, ListedGroup, Listing
    from sarameya.protocol.cluster.metadata import Broker, ClusterMetadata
    from sarameya.registry.options import RegistryOptions
    from sarameya.secret import Secret
    from sarameya.status import Activity, GroupStatus, OverdueHandler, PartitionStatus
    from sarameya.token import Token
else:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            ".config": "ClientProperties Config TopicConfig",
            ".error_codes": "ErrorCode",
            ".errors": (
                "AssignorError AuthenticationError BatchTooLargeError ClaimError CommitError ConfigError "
                "ConnectError ConnectionLostError CorruptRecordError DecodeError DecompressionLimitError "
                "DeliveryTimeoutError EncodeError FencedInstanceError GroupAuthorizationError GroupError "
                "HandlerError HandlerTimeoutError InterceptorError KafkaError LogTruncatedError MessageTooLargeError "
                "NoCommittedOffsetError OffsetOutOfRangeError PropertiesError ProtocolError RebalanceDeadlineError "
                "RecordError RegistryError RegistryRefusedError RequestTimeoutError ResponseTooLargeError "
                "RetriesExhaustedError SarameyaError SchemaError TlsError TokenError TopicAuthorizationError "
                "TopicRecreatedError UnknownSubjectError UnknownTopicError UnsupportedFormatError "
                "UnsupportedVersionError"
            ),
            ".extras": "install_command",
            ".formats.format": "Format",
            ".group.claim": "Claim ClaimBatches ClaimMessages ConcurrentMessages",
            ".group.consumer_group": "ConsumerGroup",
            ".group.delivery.interceptors": "ConsumerInterceptor",
            ".group.delivery.pauses": "Paused",
            ".group.delivery.report": "Report",
            ".group.handler": "ConsumerGroupHandler StreamHandler",
            ".group.session": "Session",
            ".group.standalone": "Consumer",
            ".group.stream": "Stream StreamBatches StreamMessages",
            ".handling.letters": "FailedMessage",
            ".handling.message_handler": "BatchHandler MessageHandler",
            ".handling.options": "CircuitBreaker DeadLetterTopic Retry RetryTopics",
            ".message_batch": "MessageBatch",
            ".meters": "Histogram Meters TopicMeters",
            ".model": (
                "Assignment CommittedOffset Generation GroupMetadata LogRange Message TimestampType TopicPartition"
            ),
            ".net.admin.group_admin": "GroupAdmin",
            ".net.log_offsets": "LOG_END LOG_START LogOffsets",
            ".net.transport": "TcpTransport Transport",
            ".observe": (
                "DeadLettered Event Landed LandingFailed LandingStarted Observer SentToRetry StoreUsed TableGrown "
                "log_event"
            ),
            ".option_kinds": "unknown_option",
            ".producer.producer": "Producer",
            ".producer.record": "ProducerRecord RecordMetadata",
            ".protocol.assignors": (
                "Assignor CooperativeStickyAssignor RangeAssignor RebalanceProtocol RoundRobinAssignor "
                "StickyAssignor Subscription TopicLayout"
            ),
            ".protocol.cluster.described_groups": "DescribedGroup DescribedMember ListedGroup Listing",
            ".protocol.cluster.metadata": "Broker ClusterMetadata",
            ".registry.options": "RegistryOptions",
            ".secret": "Secret",
            ".status": "Activity GroupStatus OverdueHandler PartitionStatus",
            ".token": "Token",
        },
    )

__all__ = [
    "LOG_END",
    "LOG_START",
    "Activity",
    "Assignment",
    "Assignor",
    "AssignorError",
    "AuthenticationError",
    "BatchHandler",
    "BatchTooLargeError",
    "Broker",
    "CircuitBreaker",
    "Claim",
    "ClaimBatches",
    "ClaimError",
    "ClaimMessages",
    "ClientProperties",
    "ClusterMetadata",
    "CommitError",
    "CommittedOffset",
    "ConcurrentMessages",
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
    "DeadLetterTopic",
    "DeadLettered",
    "DecodeError",
    "DecompressionLimitError",
    "DeliveryTimeoutError",
    "DescribedGroup",
    "DescribedMember",
    "EncodeError",
    "ErrorCode",
    "Event",
    "FailedMessage",
    "FencedInstanceError",
    "Format",
    "Generation",
    "GroupAdmin",
    "GroupAuthorizationError",
    "GroupError",
    "GroupMetadata",
    "GroupStatus",
    "HandlerError",
    "HandlerTimeoutError",
    "Histogram",
    "InterceptorError",
    "KafkaError",
    "Landed",
    "LandingFailed",
    "LandingStarted",
    "ListedGroup",
    "Listing",
    "LogOffsets",
    "LogRange",
    "LogTruncatedError",
    "Message",
    "MessageBatch",
    "MessageHandler",
    "MessageTooLargeError",
    "Meters",
    "NoCommittedOffsetError",
    "Observer",
    "OffsetOutOfRangeError",
    "OverdueHandler",
    "PartitionStatus",
    "Paused",
    "Producer",
    "ProducerRecord",
    "PropertiesError",
    "ProtocolError",
    "RangeAssignor",
    "RebalanceDeadlineError",
    "RebalanceProtocol",
    "RecordError",
    "RecordMetadata",
    "RegistryError",
    "RegistryOptions",
    "RegistryRefusedError",
    "Report",
    "RequestTimeoutError",
    "ResponseTooLargeError",
    "RetriesExhaustedError",
    "Retry",
    "RetryTopics",
    "RoundRobinAssignor",
    "SarameyaError",
    "SchemaError",
    "Secret",
    "SentToRetry",
    "Session",
    "StickyAssignor",
    "StoreUsed",
    "Stream",
    "StreamBatches",
    "StreamHandler",
    "StreamMessages",
    "Subscription",
    "TableGrown",
    "TcpTransport",
    "TimestampType",
    "TlsError",
    "Token",
    "TokenError",
    "TopicAuthorizationError",
    "TopicConfig",
    "TopicLayout",
    "TopicMeters",
    "TopicPartition",
    "TopicRecreatedError",
    "Transport",
    "UnknownSubjectError",
    "UnknownTopicError",
    "UnsupportedFormatError",
    "UnsupportedVersionError",
    "__version__",
    "install_command",
    "log_event",
    "unknown_option",
]
