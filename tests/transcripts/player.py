"""Plays transcripts on a stage, by raw requests, and records the answers. Trio.

`play` is one transcript in one profile of versions. A play has groups of its own; its connections are opened when they
first ask something, each read by a task, so that it is seen when an answer comes late or the broker hangs up.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from itertools import count
from typing import Any, NamedTuple

import attrs
import trio
from kafka.protocol.admin import DescribeGroupsRequest
from kafka.protocol.consumer import JoinGroupResponse
from kafka.protocol.metadata import FindCoordinatorResponse

from sarameya.embedded.apis import MESSAGES
from sarameya.error_codes import ErrorCode
from sarameya.protocol.versions import Api
from tests.embedded.api_kit import request
from tests.embedded.wire_client import WireClient
from tests.transcripts.answers import Names, Plain, plain
from tests.transcripts.golden import Answers
from tests.transcripts.script import (
    Ask,
    Await,
    Generation,
    Group,
    Id,
    Instance,
    Look,
    Protocol,
    Sleep,
    Step,
    Transcript,
)
from tests.transcripts.stage import Stage
from tests.transcripts.versions import PROFILES

HELD = "held"
SILENT = "no answer"
HUNG_UP = "hung up"
NOT_ASKED = "not asked: its last request is held"

_PATIENCE = 20.0
"""Seconds for an answer that has to come."""
_MOMENT = 0.25
"""Seconds for one that may be held."""
_UNTIL_SEEN = 0.1
"""Seconds. Kafka 4 shows what is in its log for good, which is a moment after it was answered."""
_OBSERVING = (Api.DESCRIBE_GROUPS, Api.LIST_GROUPS)
_AT_A_TIME = 60

_plays = count(1)


async def play_all(
    stage: Stage, transcripts: Iterable[Transcript], chosen: Callable[[str], bool] = lambda profile: True
) -> dict[tuple[str, str], Answers]:
    """The answers of all plays, many at a time: (transcript, profile) -> answers; of the profiles that are `chosen`.

    Those that depend on time come last, when nothing else keeps the machine from being in time.
    """
    plays = [(t, profile) for t in transcripts for profile in t.profiles if chosen(profile)]
    done: dict[tuple[str, str], Answers] = {}
    limit = trio.CapacityLimiter(_AT_A_TIME)

    async def run(transcript: Transcript, profile: str) -> None:
        async with limit:
            done[transcript.name, profile] = await play(stage, transcript, profile)

    for sleeps in (False, True):
        async with trio.open_nursery() as nursery:
            for transcript, profile in plays:
                if transcript.sleeps == sleeps:
                    nursery.start_soon(run, transcript, profile)
    return {(t.name, profile): done[t.name, profile] for t, profile in plays}


async def play(stage: Stage, transcript: Transcript, profile: str) -> Answers:
    """The answers of one play, by step; a step is called by who asks what, from the second time on with a number."""
    async with trio.open_nursery() as nursery:
        run = _Play(stage, PROFILES[profile], nursery)
        await run.find_brokers()
        for step in transcript.way:
            await run.take(step)
        run.forget_answers()
        for step in transcript.steps:
            await run.take(step)
        nursery.cancel_scope.cancel()
    return run.recorded()


class _Sight(NamedTuple):
    """A group at a glance."""

    state: str
    members: list[str]


@attrs.define(slots=True, eq=False)
class _Connection:
    """One named client's connection. It waits for one answer at a time."""

    name: str
    client: WireClient
    waits_for: str | None = None
    """The step whose answer has not been recorded."""
    answered: trio.Event = attrs.field(factory=trio.Event)
    answer: Any = None

    async def send(self, ask: Any) -> None:
        self.answered = trio.Event()
        with suppress(trio.BrokenResourceError):  # that the broker has hung up is seen where its answer is read
            await self.client.send(ask)

    async def read(self) -> None:
        """Take answers in until the broker hangs up."""
        while self.answer is not HUNG_UP:
            try:
                self.answer = await self.client.receive()
            except (EOFError, trio.BrokenResourceError):
                self.answer = HUNG_UP
            self.answered.set()


@attrs.define(slots=True)
class _Member:
    """What a client knows of its own membership."""

    ids: list[str] = attrs.field(factory=list)
    generation: int = -1
    protocol_type: str | None = None
    protocol_name: str | None = None
    instance: str | None = None


class _Play:
    def __init__(self, stage: Stage, versions: Mapping[Api, int], nursery: trio.Nursery) -> None:
        self._stage = stage
        self._versions = versions
        self._nursery = nursery
        self._group = f"{stage.run}-play-{next(_plays)}"
        self._names = Names(self._group)
        self._addresses: dict[bool, tuple[str, int]] = {}
        """Of the group's coordinator (True), and of another broker."""
        self._connections: dict[tuple[str, bool], _Connection] = {}
        self._members: dict[str, _Member] = {}
        self._labels: Counter[str] = Counter()
        self._answers: dict[str, Any] = {}

    async def find_brokers(self) -> None:
        brokers = list(self._stage.brokers.values())
        coordinator = brokers[0] if len(brokers) == 1 else await self._stage.coordinator(self._group)
        other = next((broker for broker in brokers if broker != coordinator), coordinator)
        self._addresses = {True: coordinator[1:], False: other[1:]}

    def forget_answers(self) -> None:
        """What follows is what the transcript is about."""
        self._answers.clear()
        self._labels.clear()

    def recorded(self) -> Answers:
        return {label: self._plain(answer) for label, answer in self._answers.items()}

    def _plain(self, answer: Any) -> Plain:
        match answer:
            case str():
                return answer
            case _Sight(state, members):
                return " ".join([state, *sorted(map(self._names.of, members))])
            case _:
                return plain(answer, self._names)

    # Steps

    async def take(self, step: Step) -> None:
        match step:
            case Ask():
                await self._ask(step)
            case Await(by):
                connection = self._connections[by, True]
                if connection.waits_for:
                    await self._receive(connection, _PATIENCE, ", then")
            case Look():
                await trio.sleep(_MOMENT)
                sight = await self._look_at_group()
                for connection in [c for c in self._connections.values() if c.waits_for]:
                    await self._receive(connection, 0, ", looked at")
                self._answers[self._numbered("the group")] = sight
            case Sleep(seconds):
                await trio.sleep(seconds)

    async def _ask(self, step: Ask) -> None:
        connection = await self._connection(step.by, step.at_coordinator)
        label = self._label(step)
        if connection.waits_for:
            self._answers[label] = NOT_ASKED
            return
        fields = self._filled(step.fields)
        if step.api is Api.JOIN_GROUP:
            self._member(step.by).instance = fields["group_instance_id"]
        if step.api in _OBSERVING:
            await trio.sleep(_UNTIL_SEEN)
        await connection.send(request(MESSAGES[step.api], self._versions[step.api], **fields))
        connection.waits_for = label
        answer = await self._receive(connection, _MOMENT if step.may_be_held else _PATIENCE)
        if isinstance(answer, FindCoordinatorResponse):
            await self._name_coordinators(answer, fields["coordinator_keys"])
        if step.comes_back and getattr(answer, "error_code", 0) == ErrorCode.MEMBER_ID_REQUIRED:
            self._answers[f"{label}, id"] = self._answers.pop(label)
            await self._ask(attrs.evolve(step, comes_back=False))

    async def _receive(self, connection: _Connection, patience: float, when: str = "") -> Any:
        """Record the answer that the connection waits for; HELD if it may come later, and has not in `patience`."""
        with trio.move_on_after(patience):
            await connection.answered.wait()
        if patience == _MOMENT and not connection.answered.is_set():
            # On a busy machine a moment may be too short. But a coordinator does one thing after the other: when this
            # is answered, it has been at the request.
            await self._look_at_group()
        answer = connection.answer if connection.answered.is_set() else SILENT if patience == _PATIENCE else HELD
        label = f"{connection.waits_for}"
        self._answers[self._numbered(f"{label}{when}") if when else label] = answer
        if answer is not HELD:
            connection.waits_for = None
        if answer is HUNG_UP:
            self._connections = {at: c for at, c in self._connections.items() if c is not connection}
        if isinstance(answer, JoinGroupResponse):
            self._take_join(connection.name, answer)
        return answer

    def _take_join(self, by: str, answer: Any) -> None:
        member = self._member(by)
        if answer.error_code in (ErrorCode.NONE, ErrorCode.MEMBER_ID_REQUIRED) and answer.member_id not in member.ids:
            self._names.learn_member(answer.member_id, by, member.instance, len(member.ids))
            member.ids.append(answer.member_id)
        if answer.error_code == ErrorCode.NONE:
            member.generation = answer.generation_id
            member.protocol_type, member.protocol_name = answer.protocol_type, answer.protocol_name

    async def _look_at_group(self) -> _Sight:
        observer = await self._connection("observer", True)
        await observer.send(request(DescribeGroupsRequest, 0, groups=[self._group]))
        await observer.answered.wait()
        [group] = observer.answer.groups
        return _Sight(group.group_state, [member.member_id for member in group.members])

    async def _name_coordinators(self, answer: Any, groups: list[str]) -> None:
        """Where the answer names the broker it should, whole and right, say so in place of ids and addresses."""
        for found in answer.coordinators or [answer]:
            leader = await self._stage.offsets_leader(found.key if answer.coordinators else groups[0])
            if (found.node_id, found.host, found.port) == leader:
                found.node_id, found.host, found.port = "<leader of the group's offsets>", "<its host>", "<its port>"

    # Connections

    async def _connection(self, name: str, at_coordinator: bool) -> _Connection:
        at = name, at_coordinator
        if at not in self._connections:
            self._connections[at] = await self._nursery.start(self._converse, name, self._addresses[at_coordinator])
        return self._connections[at]

    async def _converse(
        self, name: str, address: tuple[str, int], *, task_status: trio.TaskStatus[_Connection]
    ) -> None:
        async with self._stage.client(*address, client_id=name) as client:
            connection = _Connection(name, client)
            task_status.started(connection)
            await connection.read()

    # Names

    def _member(self, by: str) -> _Member:
        return self._members.setdefault(by, _Member())

    def _label(self, step: Ask) -> str:
        where = "" if step.at_coordinator else " elsewhere"
        return self._numbered(f"{step.by} {step.api.name}{where}")

    def _numbered(self, label: str) -> str:
        self._labels[label] += 1
        return label if self._labels[label] == 1 else f"{label} #{self._labels[label]}"

    def _filled(self, value: Any) -> Any:
        """A request's fields with the placeholders replaced by what they stand for."""
        match value:
            case Id(by, nth):
                ids = self._member(by).ids
                return ids[nth] if ids else ""
            case Generation(by, plus):
                return self._member(by).generation + plus
            case Protocol(by, field):
                return getattr(self._member(by), f"protocol_{field}")
            case Instance(by):
                return self._member(by).instance
            case Group(name):
                return f"{self._group}-{name}" if name else self._group
            case Mapping():
                return {key: self._filled(item) for key, item in value.items()}
            case list():
                return [self._filled(item) for item in value]
            case _:
                return value
