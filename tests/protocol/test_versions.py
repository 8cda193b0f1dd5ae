import pytest
from kafka.protocol.admin import (
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DeleteGroupsRequest,
    DeleteTopicsRequest,
    DescribeConfigsRequest,
    DescribeGroupsRequest,
    ListGroupsRequest,
)
from kafka.protocol.consumer import (
    FetchRequest,
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    ListOffsetsRequest,
    OffsetCommitRequest,
    OffsetDeleteRequest,
    OffsetFetchRequest,
    OffsetForLeaderEpochRequest,
    SyncGroupRequest,
)
from kafka.protocol.metadata import ApiVersionsRequest, FindCoordinatorRequest, MetadataRequest
from kafka.protocol.producer import InitProducerIdRequest, ProduceRequest
from kafka.protocol.sasl import SaslAuthenticateRequest, SaslHandshakeRequest

from sarameya.errors import UnsupportedVersionError
from sarameya.protocol.schemas import ConsumerGroupDescribeRequest
from sarameya.protocol.versions import CLIENT_VERSIONS, Api, VersionRange, broker_versions, negotiate

MESSAGES = {
    Api.PRODUCE: ProduceRequest,
    Api.FETCH: FetchRequest,
    Api.LIST_OFFSETS: ListOffsetsRequest,
    Api.METADATA: MetadataRequest,
    Api.OFFSET_COMMIT: OffsetCommitRequest,
    Api.OFFSET_FETCH: OffsetFetchRequest,
    Api.FIND_COORDINATOR: FindCoordinatorRequest,
    Api.JOIN_GROUP: JoinGroupRequest,
    Api.HEARTBEAT: HeartbeatRequest,
    Api.LEAVE_GROUP: LeaveGroupRequest,
    Api.SYNC_GROUP: SyncGroupRequest,
    Api.DESCRIBE_GROUPS: DescribeGroupsRequest,
    Api.LIST_GROUPS: ListGroupsRequest,
    Api.SASL_HANDSHAKE: SaslHandshakeRequest,
    Api.API_VERSIONS: ApiVersionsRequest,
    Api.CREATE_TOPICS: CreateTopicsRequest,
    Api.DELETE_TOPICS: DeleteTopicsRequest,
    Api.INIT_PRODUCER_ID: InitProducerIdRequest,
    Api.OFFSET_FOR_LEADER_EPOCH: OffsetForLeaderEpochRequest,
    Api.DESCRIBE_CONFIGS: DescribeConfigsRequest,
    Api.SASL_AUTHENTICATE: SaslAuthenticateRequest,
    Api.CREATE_PARTITIONS: CreatePartitionsRequest,
    Api.DELETE_GROUPS: DeleteGroupsRequest,
    Api.OFFSET_DELETE: OffsetDeleteRequest,
    Api.CONSUMER_GROUP_DESCRIBE: ConsumerGroupDescribeRequest,
    Api.SASL_HANDSHAKE: SaslHandshakeRequest,
    Api.SASL_AUTHENTICATE: SaslAuthenticateRequest,
}


@pytest.mark.parametrize(
    ("broker", "chosen"),
    [((0, 99), 17), ((0, 7), 7), ((4, 4), 4), ((17, 20), 17), ((0, 4), 4)],
    ids=["broker newer", "broker older", "one only", "our newest, its oldest", "our oldest, its newest"],
)
def test_newest_common_version_is_chosen(broker, chosen):
    assert negotiate(Api.FETCH, {Api.FETCH: VersionRange(*broker)}) == chosen


@pytest.mark.parametrize("broker", [(0, 3), (18, 20)], ids=["broker too old", "broker too new"])
def test_no_common_version_names_the_api_and_both_ranges(broker):
    with pytest.raises(UnsupportedVersionError, match=rf"FETCH.*{broker[0]}\.\.{broker[1]}.*4\.\.17"):
        negotiate(Api.FETCH, {Api.FETCH: VersionRange(*broker)})


def test_api_that_the_broker_lacks_is_named_in_the_error():
    with pytest.raises(UnsupportedVersionError, match="HEARTBEAT"):
        negotiate(Api.HEARTBEAT, {Api.FETCH: VersionRange(0, 20)})


def test_ranges_of_another_client_may_be_negotiated():
    assert negotiate(Api.FETCH, {Api.FETCH: VersionRange(0, 9)}, {Api.FETCH: VersionRange(2, 3)}) == 3


def test_broker_versions_keep_unknown_apis():
    assert broker_versions([(1, 0, 17), (999, 2, 3)]) == {1: VersionRange(0, 17), 999: VersionRange(2, 3)}


def test_every_client_api_has_a_message_with_its_key():
    assert MESSAGES.keys() == CLIENT_VERSIONS.keys()
    assert {message.API_KEY for message in MESSAGES.values()} == set(CLIENT_VERSIONS)


@pytest.mark.parametrize("api", CLIENT_VERSIONS, ids=lambda api: api.name)
def test_every_client_version_can_be_encoded(api):
    low, high = CLIENT_VERSIONS[api]
    oldest, newest = MESSAGES[api].valid_versions
    assert oldest <= low <= high <= newest
