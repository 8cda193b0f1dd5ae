"""Responses to group requests that differ from Apache Kafka 4.1's, on purpose or since a broker is older.

Each row has its reason.
"""

from __future__ import annotations

from tests.transcripts.known import Known, fields
from tests.transcripts.responses import ABSENT


def _forgotten(transcript: str, step: str, here: str) -> Known:
    why = "Kafka never responds to this request, and its client waits for its timeout; here it gets an error"
    return Known(why, transcript, step, "", kafka="held", here=here)


EMBEDDED_BROKER = (
    _forgotten("*: both leave at once", "b SYNC_GROUP, looked at", "answered UNKNOWN_MEMBER_ID"),
    _forgotten("*: an administrator removes *", "b SYNC_GROUP, looked at", "answered UNKNOWN_MEMBER_ID"),
    _forgotten("a member that joins twice *", "b JOIN_GROUP*, looked at", "answered REBALANCE_IN_PROGRESS"),
    _forgotten("a member that joins twice *", "b JOIN_GROUP*, looked at #2", ABSENT),
    _forgotten("a member that syncs twice *", "b SYNC_GROUP, looked at", "answered REBALANCE_IN_PROGRESS"),
    _forgotten("a member that syncs twice *", "b SYNC_GROUP, looked at #2", ABSENT),
    *(
        Known(
            "Kafka does not notice that all remaining members have joined if the last join was refused, and waits for "
            "the rebalance timeout; here the rebalance continues",
            "more clients get member ids than the limit lets join",
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
            "an internal error of Kafka (an IllegalStateException); here the error is the same as for every other id "
            "that does not belong to the instance",
            "a pending member joins as an instance",
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

_SIGN_OF_LIFE = "in a Stable group a sync extends the session in Kafka 3, but not in Kafka 4"
_ONE_BY_ONE = (
    "Kafka 3 removes several leaving members one after the other: the first removal starts or ends a rebalance with "
    "those that have not been removed yet"
)
_NEVER_A_MEMBER = "Kafka 4 starts a rebalance when a client leaves that never was a member; Kafka 3 did not"
_ENDS_THE_ROUND = "preparing, the follower has joined again: both leave at once"


def _listed(member: str) -> list[tuple[str, str, str]]:
    """Return the fields of a member that a leader receives, and does not receive from Kafka 4.1."""
    where = f"members.<{member}>"
    return [
        (f"{where}.member_id", ABSENT, f"<{member}>"),
        (f"{where}.group_instance_id", ABSENT, "None"),
        (f"{where}.metadata", ABSENT, "<reads orders>"),
    ]


KAFKA_3_9 = (
    Known(
        "only Kafka 4 has configurations of groups, with operations to describe and alter them",
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
        "commits with a generation to a group that does not exist: only the new coordinator has an error for that, "
        "since a group may be of another type (KIP-848)",
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
        "Kafka 3 deletes an empty group with its last offset, Kafka 4 at its next check for expired offsets",
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
        "a pending member leaves while the others sync",
        "b SYNC_GROUP, looked at",
        ("", "answered REBALANCE_IN_PROGRESS", "held"),
    ),
    *fields(
        _NEVER_A_MEMBER,
        "a pending member leaves while the others sync",
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
    # The removal of the first ends the rebalance. The group's leader is then the other leaving member,
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
    # or the one that stays.
    *fields(_ONE_BY_ONE, _ENDS_THE_ROUND, "c JOIN_GROUP #2, looked at", *_listed("b"), by_chance=True),
)
