"""Responses to group requests that differ from Apache Kafka 4.1's, on purpose or by a broker's age, with the reason."""

from __future__ import annotations

from tests.transcripts.answers import ABSENT
from tests.transcripts.known import Known, fields


def _forgotten(transcript: str, step: str, here: str) -> Known:
    why = "Kafka drops this request's answer, and its client waits until it gives up; here it is told why"
    return Known(why, transcript, step, "", kafka="held", here=here)


EMBEDDED_BROKER = (
    _forgotten("*: both leave at once", "b SYNC_GROUP, looked at", "answered UNKNOWN_MEMBER_ID"),
    _forgotten("*: an administrator removes *", "b SYNC_GROUP, looked at", "answered UNKNOWN_MEMBER_ID"),
    _forgotten("a member that joins twice in a round*", "b JOIN_GROUP*, looked at", "answered REBALANCE_IN_PROGRESS"),
    _forgotten("a member that joins twice in a round*", "b JOIN_GROUP*, looked at #2", ABSENT),
    _forgotten("a member that syncs twice in a round*", "b SYNC_GROUP, looked at", "answered REBALANCE_IN_PROGRESS"),
    _forgotten("a member that syncs twice in a round*", "b SYNC_GROUP, looked at #2", ABSENT),
    *(
        Known(
            "that all who are left have joined is overlooked by Kafka when the last was turned away, until the "
            "rebalance timeout; here the round goes on",
            "ids are given out beyond the limit, places are not",
            step,
            field,
            kafka,
            here,
        )
        for step, field, kafka, here in [
            ("? JOIN_GROUP*, looked at", "", "held", "answered NONE"),
            ("the group", "", "PreparingRebalance *", "CompletingRebalance *"),
        ]
    ),
    *(
        Known(
            "a fault within Kafka (an IllegalStateException), told as such; here it is what it is in all other cases "
            "of an id that does not belong to the instance",
            "one that was told its id comes back as an instance",
            "a JOIN_GROUP #2",
            field,
            kafka,
            here,
        )
        for field, kafka, here in [
            ("error_code", "UNKNOWN_SERVER_ERROR", "UNKNOWN_MEMBER_ID"),
            ("member_id", "", "<a>"),
        ]
    ),
)

_SIGN_OF_LIFE = "Kafka 3 takes a sync in a Stable group for a sign of life, Kafka 4 does not"
_ONE_BY_ONE = (
    "of several that leave at once Kafka 3 lets one go after the other: the first begins a round, or ends one, "
    "together with those that are about to go"
)
_NEVER_A_MEMBER = "Kafka 4 begins a round when one leaves that never was a member; Kafka 3 did not"
_ENDS_THE_ROUND = "preparing, the follower has joined again: both leave at once"


def _listed(member: str) -> list[tuple[str, str, str]]:
    """A member that is told to a leader, where Kafka 4.1 tells of none."""
    where = f"members.<{member}>"
    return [
        (f"{where}.member_id", ABSENT, f"<{member}>"),
        (f"{where}.group_instance_id", ABSENT, "None"),
        (f"{where}.metadata", ABSENT, "<reads orders>"),
    ]


KAFKA_3_9 = (
    Known(
        "groups have configurations, to be seen and changed, in Kafka 4 only",
        "*",
        "* DESCRIBE_GROUPS*",
        "groups.*.authorized_operations",
        "?10, 11, 3, 6, 8?",
        "?3, 6, 8?",
    ),
    Known(
        "Kafka 3 shows assignments of Stable groups only",
        "*",
        "* DESCRIBE_GROUPS*",
        "groups.*.members.*.member_assignment",
        "[aot]*",
        "",
    ),
    Known(
        "commits with a generation to a group that does not exist: told as such by the new coordinator, since a group "
        "may be of another type (KIP-848)",
        "*",
        "? OFFSET_COMMIT*",
        "topics.orders.partitions.0.error_code",
        "GROUP_ID_NOT_FOUND",
        "ILLEGAL_GENERATION",
    ),
    *fields(
        _SIGN_OF_LIFE,
        "syncs and joins keep a member alive",
        "a JOIN_GROUP #3",
        ("error_code", "UNKNOWN_MEMBER_ID", "NONE"),
        ("generation_id", "-1", "2"),
        ("protocol_type", "None", "consumer"),
        ("protocol_name", "None", "range"),
        ("leader", "", "<a>"),
        ("members", "[]", ABSENT),
        ("members.<a>.member_id", ABSENT, "<a>"),
        ("members.<a>.group_instance_id", ABSENT, "None"),
        ("members.<a>.metadata", ABSENT, "<reads orders>"),
    ),
    *fields(
        _SIGN_OF_LIFE,
        "syncs and joins keep a member alive",
        "a HEARTBEAT",
        ("error_code", "UNKNOWN_MEMBER_ID", "NONE"),
    ),
    Known(
        "Kafka 3 deletes an empty group with its last offset, Kafka 4 when it next looks for what has expired",
        "empty, *: offsets are deleted",
        "the group",
        "",
        "Empty",
        "Dead",
    ),
    *fields(
        _NEVER_A_MEMBER,
        "stable, one is to come back with its id: one whose id was given out leaves",
        "the group",
        ("", "PreparingRebalance <a> <b>", "Stable <a> <b>"),
    ),
    *fields(
        _NEVER_A_MEMBER,
        "one that was told its id leaves while the others sync",
        "b SYNC_GROUP, looked at",
        ("", "answered REBALANCE_IN_PROGRESS", "held"),
    ),
    *fields(
        _NEVER_A_MEMBER,
        "one that was told its id leaves while the others sync",
        "the group",
        ("", "PreparingRebalance <a> <b>", "CompletingRebalance <a> <b>"),
    ),
    *fields(
        _ONE_BY_ONE,
        "stable, one is to come back *: both leave at once",
        "the group",
        ("", "Empty", "PreparingRebalance"),
    ),
    *fields(
        _ONE_BY_ONE,
        "completing, the follower has synced: both leave at once",
        "b SYNC_GROUP, looked at",
        ("", "held", "answered REBALANCE_IN_PROGRESS"),
    ),
    *fields(_ONE_BY_ONE, _ENDS_THE_ROUND, "the group", ("", "CompletingRebalance <c>", "PreparingRebalance <c>")),
    *fields(
        _ONE_BY_ONE,
        _ENDS_THE_ROUND,
        "b JOIN_GROUP #3, looked at",
        ("error_code", "UNKNOWN_MEMBER_ID", "NONE"),
        ("generation_id", "-1", "3"),
        ("protocol_type", "None", "consumer"),
        ("protocol_name", "None", "range"),
        ("leader", "", "<[bc]>"),
        ("member_id", "", "<b>"),
    ),
    # The round that the first has ended is led by the other that is about to go,
    *fields(
        _ONE_BY_ONE,
        _ENDS_THE_ROUND,
        "b JOIN_GROUP #3, looked at",
        ("members", "[]", ABSENT),
        *_listed("b"),
        *_listed("c"),
        by_chance=True,
    ),
    *fields(
        _ONE_BY_ONE,
        _ENDS_THE_ROUND,
        "c JOIN_GROUP #2, looked at",
        ("leader", "<c>", "<b>"),
        ("members", ABSENT, "[]"),
        ("members.<c>.member_id", "<c>", ABSENT),
        ("members.<c>.group_instance_id", "None", ABSENT),
        ("members.<c>.metadata", "<reads orders>", ABSENT),
        by_chance=True,
    ),
    # or by the one that stays.
    *fields(_ONE_BY_ONE, _ENDS_THE_ROUND, "c JOIN_GROUP #2, looked at", *_listed("b"), by_chance=True),
)
