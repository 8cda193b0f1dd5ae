"""Messages with schemas of our own, against bytes laid out by hand from Kafka's protocol guide."""

from __future__ import annotations

from sarameya.protocol.schemas import ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse

TOPIC_ID = bytes(range(16))

REQUEST = (
    b"\x02"  # one group id, and its length and text
    b"\x02g"
    b"\x00"  # no authorized operations
    b"\x00"  # no tagged fields
)

ASSIGNMENT = (
    b"\x02"  # one topic: its id, name, two partitions
    + TOPIC_ID
    + b"\x07orders"
    + b"\x03\x00\x00\x00\x00\x00\x00\x00\x02"
    + b"\x00"  # tagged fields of the topic, of the assignment
    + b"\x00"
)

RESPONSE = (
    b"\x00\x00\x00\x00"  # throttle time
    b"\x02"  # one group
    b"\x00\x00"  # no error, no message
    b"\x00"
    b"\x02g"
    b"\x07Stable"
    b"\x00\x00\x00\x05"  # group epoch, assignment epoch
    b"\x00\x00\x00\x04"
    b"\x08uniform"
    b"\x02"  # one member
    b"\x02m"
    b"\x00"  # no instance id, no rack
    b"\x00"
    b"\x00\x00\x00\x05"  # member epoch
    b"\x07client"
    b"\x0b/127.0.0.1"
    b"\x02\x07orders"  # subscribed topics, no pattern
    b"\x00"
    + ASSIGNMENT
    + b"\x01\x00"  # an empty target
    + b"\x00"  # tagged fields of the member
    + b"\x80\x00\x00\x00"  # authorized operations that were not requested
    + b"\x00\x00"  # tagged fields of the group, of the response
)


def test_consumer_group_describe_request_has_kafkas_bytes() -> None:
    message = ConsumerGroupDescribeRequest[0](group_ids=["g"], include_authorized_operations=False)
    assert bytes(message.encode()) == REQUEST


def test_consumer_group_describe_response_is_decoded() -> None:
    (group,) = ConsumerGroupDescribeResponse[0].decode(RESPONSE).groups
    assert (group.error_code, group.group_id, group.group_state, group.assignor_name) == (0, "g", "Stable", "uniform")
    assert (group.group_epoch, group.assignment_epoch) == (5, 4)
    (member,) = group.members
    assert (member.member_id, member.instance_id, member.client_id, member.client_host) == (
        "m",
        None,
        "client",
        "/127.0.0.1",
    )
    assert (member.subscribed_topic_names, member.subscribed_topic_regex) == (["orders"], None)
    (row,) = member.assignment.topic_partitions
    assert (row.topic_id.bytes, row.topic_name, row.partitions) == (TOPIC_ID, "orders", [0, 2])
    assert member.target_assignment.topic_partitions == []
