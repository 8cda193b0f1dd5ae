"""Every row of the reaction table: a member's next requests after an error code, and the effect on its session."""

from __future__ import annotations

import attrs
import pytest
import trio
from trio.testing import MockClock

from sarameya import ErrorCode, KafkaError, SarameyaError
from sarameya.embedded import EmbeddedCluster
from sarameya.errors import (
    CommitError,
    FencedInstanceError,
    GroupAuthorizationError,
    GroupError,
    TopicAuthorizationError,
    UnknownTopicError,
)
from sarameya.observe import ClaimStarted, Retrying, SessionEnding
from sarameya.protocol.membership.states import Reaction, Request
from sarameya.protocol.versions import Api
from tests.expected_reactions import REACTIONS
from tests.group.kit import Recorder, Running, deadline, eventually, failure, fill, orders, start_member
from tests.group.received_requests import OF_GROUPS, ReceivedRequest, watch

APIS = {
    Request.FIND_COORDINATOR: Api.FIND_COORDINATOR,
    Request.JOIN: Api.JOIN_GROUP,
    Request.SYNC: Api.SYNC_GROUP,
    Request.HEARTBEAT: Api.HEARTBEAT,
    Request.LEAVE: Api.LEAVE_GROUP,
    Request.COMMIT: Api.OFFSET_COMMIT,
    Request.OFFSET_FETCH: Api.OFFSET_FETCH,
}


@attrs.frozen(slots=True)
class Expected:
    """The expected requests after the one that was refused with an error code, and the consequences.

    `(same)` is sent as the member that was refused, `(new)` without a member id. `session`: it `continues`, `ends` in
    order, or is `lost`. `raised`: the error that the caller of `commit()`, or of `consume()`, gets; KafkaError stands
    for the code's own class.
    """

    then: str
    session: str = "continues"
    raised: type[KafkaError] | None = None


OWN_CLASS: dict[ErrorCode, type[KafkaError]] = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: UnknownTopicError,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: TopicAuthorizationError,
}


_REJOINS = {Reaction.FORGET_MEMBER: "JOIN_GROUP(new)", Reaction.DROP_GENERATION: "JOIN_GROUP(same)"}

EXPECTED: dict[tuple[Request, Reaction], Expected] = {
    # Any error that is not fatal: the request is sent again.
    **{(Request.FIND_COORDINATOR, r): Expected("FIND_COORDINATOR HEARTBEAT(same)") for r in Reaction},
    # The test makes the member rejoin, which ends its session in order.
    **{(Request.JOIN, r): Expected(rejoin, "ends") for r, rejoin in _REJOINS.items()},
    (Request.JOIN, Reaction.ADOPT_MEMBER_ID): Expected("JOIN_GROUP(same)", "ends"),
    (Request.JOIN, Reaction.REBALANCE): Expected("JOIN_GROUP(same)", "ends"),
    (Request.JOIN, Reaction.FIND_COORDINATOR): Expected("FIND_COORDINATOR JOIN_GROUP(same)", "ends"),
    (Request.JOIN, Reaction.RETRY): Expected("JOIN_GROUP(same)", "ends"),
    **{(Request.SYNC, r): Expected(rejoin, "ends") for r, rejoin in _REJOINS.items()},
    (Request.SYNC, Reaction.REBALANCE): Expected("JOIN_GROUP(same)", "ends"),
    (Request.SYNC, Reaction.FIND_COORDINATOR): Expected("FIND_COORDINATOR SYNC_GROUP(same)", "ends"),
    (Request.SYNC, Reaction.RETRY): Expected("SYNC_GROUP(same)", "ends"),
    **{(Request.HEARTBEAT, r): Expected(rejoin, "lost") for r, rejoin in _REJOINS.items()},
    (Request.HEARTBEAT, Reaction.REBALANCE): Expected("JOIN_GROUP(same)", "ends"),
    (Request.HEARTBEAT, Reaction.FIND_COORDINATOR): Expected("FIND_COORDINATOR HEARTBEAT(same)"),
    (Request.HEARTBEAT, Reaction.RETRY): Expected("HEARTBEAT(same)"),
    (Request.LEAVE, Reaction.PROCEED): Expected("", "ends"),
    (Request.LEAVE, Reaction.FIND_COORDINATOR): Expected("FIND_COORDINATOR LEAVE_GROUP(same)", "ends"),
    (Request.LEAVE, Reaction.RETRY): Expected("LEAVE_GROUP(same)", "ends"),
    **{(Request.COMMIT, r): Expected(rejoin, "lost", CommitError) for r, rejoin in _REJOINS.items()},
    (Request.COMMIT, Reaction.FIND_COORDINATOR): Expected("FIND_COORDINATOR OFFSET_COMMIT(same)"),
    (Request.COMMIT, Reaction.RETRY): Expected("OFFSET_COMMIT(same)"),
    (Request.COMMIT, Reaction.RAISE): Expected("HEARTBEAT(same)", raised=KafkaError),
    # The next join decides the member id. Without offsets no session starts; `consume()` raises the code.
    **{(Request.OFFSET_FETCH, r): Expected("JOIN_GROUP(same)", "ends") for r in _REJOINS},
    (Request.OFFSET_FETCH, Reaction.RAISE): Expected("LEAVE_GROUP(same)", "ends", KafkaError),
    (Request.OFFSET_FETCH, Reaction.FIND_COORDINATOR): Expected("FIND_COORDINATOR OFFSET_FETCH", "ends"),
    (Request.OFFSET_FETCH, Reaction.RETRY): Expected("OFFSET_FETCH", "ends"),
}


async def send(request: Request, member: Running, handler: Recorder, cluster: EmbeddedCluster) -> SarameyaError | None:
    """Make the member send `request`. Return the error that the caller of `commit()` gets."""
    match request:
        case Request.FIND_COORDINATOR:
            cluster.fail_next(Api.HEARTBEAT, ErrorCode.NOT_COORDINATOR)
        case Request.JOIN | Request.SYNC | Request.OFFSET_FETCH:
            handler.sessions[0].end("rejoin")
        case Request.LEAVE:
            member.group.close_nowait()
        case Request.COMMIT:
            handler.sessions[0].reset_offset("orders", 0, 3)
            try:
                await handler.sessions[0].commit()
            except SarameyaError as error:
                return error
    return None


def summary(requests: list[ReceivedRequest], member_id: str) -> str:
    """Return the requests as `Expected.then` has them, for a member that was `member_id`."""
    names = []
    for request in requests:
        who = "(same)" if request.member_id == member_id else "(new)"
        names.append(request.api.name + (who if hasattr(request.body, "member_id") else ""))
    return " ".join(names)


@pytest.mark.parametrize(
    ("request_", "code", "reaction"),
    [
        pytest.param(request, code, reaction, id=f"{request.name}-{code.name}")
        for (request, code), reaction in REACTIONS.items()
    ],
)
async def test_error_code_causes_the_reaction_of_its_row(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch, request_: Request, code: ErrorCode, reaction: Reaction
) -> None:
    expected, api, what = (
        EXPECTED[request_, reaction],
        APIS[request_],
        request_.name.lower().replace("offset_", "offset "),
    )
    received = watch(monkeypatch)
    async with orders() as cluster, deadline() as nursery:
        fill(cluster, 4)
        handler = Recorder()
        member = await start_member(nursery, cluster, handler, autocommit=False)
        await handler.received(4)
        await handler.sessions[0].commit()
        received.clear()
        cluster.fail_next(api, code)
        commit_error = await send(request_, member, handler, cluster)
        await eventually(lambda: cluster.faults == ())
        await trio.sleep(4.0)  # a heartbeat, at least

        requests = [request for request in received if request.api in OF_GROUPS]
        refused = next(place for place, request in enumerate(requests) if request.refused and request.api is api)
        then = requests[refused + 1 :]
        assert summary(then[: len(expected.then.split())], handler.sessions[0].member_id) == expected.then
        if reaction in (Reaction.RETRY, Reaction.FIND_COORDINATOR):
            again = next(request for request in then if request.api is api)
            assert 0.08 <= again.at - requests[refused].at <= 0.15, "after the first backoff"
            assert [e for e in member.seen(Retrying) if what in e.what], "observers are notified"

        endings = member.seen(SessionEnding)
        assert [e.lost for e in endings[:1]] == {"continues": [], "ends": [False], "lost": [True]}[expected.session]
        if expected.raised:
            error = commit_error if request_ is Request.COMMIT else failure(member)
            assert isinstance(error, KafkaError)
            assert error.code == code
            assert type(error) is (
                OWN_CLASS.get(code, KafkaError) if expected.raised is KafkaError else expected.raised
            )
        else:
            assert commit_error is None
        if request_ is Request.OFFSET_FETCH and not expected.raised:
            assert [e.offset for e in member.seen(ClaimStarted)] == [0, 4], (
                "at the committed offset, whatever the policy"
            )
        if member.ended.is_set():
            assert request_ is Request.LEAVE or expected.raised
            assert reaction is Reaction.PROCEED or cluster.describe_group("g").members == (), "it has left"
            assert len(then) == len(expected.then.split()), "no further request"
        else:
            fill(cluster, 1)
            await handler.received(5 if commit_error is None else len(handler.messages) + 1)
            assert member.error is None


def test_every_row_of_the_table_is_tested() -> None:
    assert EXPECTED.keys() >= {(request, reaction) for (request, _), reaction in REACTIONS.items()}


# -- fatal codes --------------------------------------------------------------------------------------

FATAL: list[tuple[ErrorCode, type[KafkaError], str]] = [
    (ErrorCode.FENCED_INSTANCE_ID, FencedInstanceError, "give each member its own"),
    (ErrorCode.GROUP_AUTHORIZATION_FAILED, GroupAuthorizationError, "grant this principal READ on the group"),
    (ErrorCode.INCONSISTENT_GROUP_PROTOCOL, GroupError, "set the same rebalance_strategies on all of them"),
    (ErrorCode.INVALID_SESSION_TIMEOUT, GroupError, "group.min.session.timeout.ms..group.max.session.timeout.ms"),
    (ErrorCode.GROUP_MAX_SIZE_REACHED, GroupError, "raise the broker's group.max.size or run fewer members"),
    (ErrorCode.INVALID_GROUP_ID, GroupError, "the group id is empty or not allowed"),
    (ErrorCode.UNKNOWN_SERVER_ERROR, GroupError, ""),
]


@pytest.mark.parametrize(
    "request_", [Request.FIND_COORDINATOR, Request.JOIN, Request.SYNC, Request.HEARTBEAT], ids=lambda r: r.name
)
@pytest.mark.parametrize(("code", "kind", "advice"), FATAL, ids=[code.name for code, _, _ in FATAL])
async def test_fatal_code_is_raised_once_with_advice(
    autojump_clock: MockClock,
    monkeypatch: pytest.MonkeyPatch,
    request_: Request,
    code: ErrorCode,
    kind: type[KafkaError],
    advice: str,
) -> None:
    received = watch(monkeypatch)
    async with orders() as cluster, deadline() as nursery:
        cluster.fail_next(APIS[request_], code)
        member = await start_member(nursery, cluster, Recorder())
        await member.ended.wait()
        error = member.error
        assert type(error) is kind
        assert error.code == code
        assert f"{code.name} ({code.value})" in str(error)
        assert "'g'" in str(error)
        assert str(error).endswith(advice)
        assert [a.refused for a in received if a.api is APIS[request_]].count(True) == 1
        ended = len(received)
        await trio.sleep(30)
        assert len(received) == ended, "no further request"
