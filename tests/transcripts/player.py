"""The player: it plays transcripts on a stage, by raw requests, and records the responses.

`play` plays one transcript in one profile of versions. Each play has groups and topics of its own. `notes` keeps the
ids that its clients receive, `connections` their connections.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from itertools import count
from typing import Any, NamedTuple

import attrs
import trio
from kafka.protocol.admin import DescribeGroupsRequest
from kafka.protocol.metadata import FindCoordinatorResponse

from sarameya.embedded.apis import MESSAGES
from sarameya.error_codes import ErrorCode
from sarameya.protocol.versions import Api
from tests.embedded.api_kit import request
from tests.transcripts.batches import batch
from tests.transcripts.connections import HUNG_UP, Connection, Connections
from tests.transcripts.golden import Answers
from tests.transcripts.placeholders import Notes
from tests.transcripts.responses import Plain, plain
from tests.transcripts.script import (
    Await,
    Change,
    DeleteRecords,
    DeleteTopic,
    EndTransaction,
    InTransaction,
    Look,
    MoveLeader,
    Send,
    Sleep,
    Step,
    Transcript,
)
from tests.transcripts.stage import Broker, Stage
from tests.transcripts.versions import PROFILES

HELD = "held"
SILENT = "no answer"
NOT_DUE = "no answer is due"
_UNRECORDED = "not recorded"
NOT_ASKED = "not asked: its last request is held"

_ANSWER_SECONDS = 20.0
"""The timeout of a response that has to arrive."""
_HELD_SECONDS = 0.25
"""The wait for a response that may be held."""
_VISIBLE_SECONDS = 0.1
"""The wait before a request that reads groups: Kafka 4 shows a change only some time after its response."""
_OBSERVING = (Api.DESCRIBE_GROUPS, Api.LIST_GROUPS)
_MAX_PLAYS = 60

_plays = count(1)

Chosen = Callable[[Transcript, str], bool]
"""Returns whether a transcript is played in a profile."""


def everything(_transcript: Transcript, _profile: str) -> bool:
    return True


async def play_all(
    stage: Stage, transcripts: Iterable[Transcript], chosen: Chosen = everything
) -> dict[tuple[str, str], Answers]:
    """Play all `chosen` transcripts, many at once, and return the responses by (transcript, profile).

    Transcripts about groups come first, while the topics are created: whenever a topic is deleted, Kafka 3 deletes
    empty groups. Those that depend on time come next, so that no other play delays them. Those about logs come last.
    """
    plays = [(t, profile) for t in transcripts for profile in t.profiles if chosen(t, profile)]
    notes = [Notes(f"{stage.run}-play-{next(_plays)}") for _ in plays]
    done: dict[tuple[str, str], Answers] = {}
    limit = trio.CapacityLimiter(_MAX_PLAYS)

    async def run(transcript: Transcript, profile: str, notes: Notes) -> None:
        async with limit:
            done[transcript.name, profile] = await play(stage, transcript, profile, notes)

    async def run_all(which: Callable[[Transcript], bool]) -> None:
        async with trio.open_nursery() as nursery:
            for (transcript, profile), own in zip(plays, notes, strict=True):
                if which(transcript):
                    nursery.start_soon(run, transcript, profile, own)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(_create_topics, stage, [(own, t) for own, (t, _) in zip(notes, plays, strict=True)])
        await run_all(lambda transcript: not transcript.topics and not transcript.sleeps)
        await run_all(lambda transcript: not transcript.topics and transcript.sleeps)
    await run_all(lambda transcript: bool(transcript.topics))
    return {(t.name, profile): done[t.name, profile] for t, profile in plays}


async def _create_topics(stage: Stage, plays: Iterable[tuple[Notes, Transcript]]) -> None:
    """Create the topics of all plays at once: one by one would take a hundred times as long."""
    wanted = {
        notes.topic(name): (notes, name, partitions)
        for notes, transcript in plays
        for name, partitions in transcript.topics.items()
    }
    ids = await stage.create({topic: partitions for topic, (_, _, partitions) in wanted.items()}) if wanted else {}
    for topic, (notes, name, _) in wanted.items():
        notes.learn_topic(name, ids[topic])


async def play(stage: Stage, transcript: Transcript, profile: str, notes: Notes) -> Answers:
    """Play one transcript, and return the responses by step.

    A step's label is its client and API, with a number from the second one on.
    """
    async with trio.open_nursery() as nursery:
        connections = Connections(stage, nursery)
        run = _Play(stage, PROFILES[profile], notes, connections, is_about_groups=not transcript.topics)
        await run.find_coordinator()
        for step in transcript.setup:
            await run.perform(step)
        run.forget_answers()
        for step in transcript.steps:
            await run.perform(step)
        nursery.cancel_scope.cancel()
    return run.recorded()


class _GroupState(NamedTuple):
    """The state of a group and its member ids."""

    state: str
    members: list[str]


class _Play:
    def __init__(
        self,
        stage: Stage,
        versions: Mapping[Api, int],
        notes: Notes,
        connections: Connections,
        *,
        is_about_groups: bool,
    ) -> None:
        self._stage = stage
        self._versions = versions
        self._notes = notes
        self._connections = connections
        self._coordinator = self._other = stage.brokers[0]
        self._is_about_groups = is_about_groups
        self._labels: Counter[str] = Counter()
        self._answers: dict[str, Any] = {}
        for place, (node_id, host, port) in enumerate(stage.brokers):
            notes.names.learn_broker(node_id, place, host, port)

    async def find_coordinator(self) -> None:
        brokers = self._stage.brokers
        if len(brokers) > 1 and self._is_about_groups:
            self._coordinator = await self._stage.coordinator(self._notes.group)
            self._other = next(broker for broker in brokers if broker != self._coordinator)

    def forget_answers(self) -> None:
        """Drop the responses to the setup; only later ones are recorded."""
        self._answers.clear()
        self._labels.clear()

    def recorded(self) -> Answers:
        return {label: self._plain(answer) for label, answer in self._answers.items()}

    def _plain(self, answer: Any) -> Plain:
        match answer:
            case str():
                return answer
            case _GroupState(state, members):
                return " ".join([state, *sorted(map(self._notes.names.of, members))])
            case _:
                return plain(answer, self._notes.names)

    # Steps

    async def perform(self, step: Step) -> None:
        match step:
            case Send():
                await self._send(step)
            case Await(by):
                for connection in [c for c in self._connections if c.name == by and c.waits_for]:
                    await self._receive(connection, _ANSWER_SECONDS, ", then")
            case Look():
                await trio.sleep(_HELD_SECONDS)
                group_state = await self._describe_group()
                for connection in [c for c in self._connections if c.waits_for]:
                    await self._receive(connection, 0, ", looked at")
                if self._is_about_groups:
                    self._answers[self._numbered("the group")] = group_state
            case Sleep(seconds):
                await trio.sleep(seconds)
            case _:
                await self._change(step)

    async def _change(self, change: Change) -> None:
        cluster, names, topic = self._stage.changes, self._notes.names, self._notes.topic
        assert cluster is not None
        match change:
            case MoveLeader(name, partition, place):
                await cluster.move_leader(topic(name), partition, self._stage.brokers[place].node_id)
            case DeleteRecords(name, partition, before):
                await cluster.delete_records(topic(name), partition, before)
            case DeleteTopic(name, recreate):
                await self._stage.delete(topic(name))
                if recreate:
                    ids = await self._stage.create({topic(name): 1})
                    self._notes.learn_topic(name, ids[topic(name)], recreated=True)
            case InTransaction(by, name, partition, values):
                producer = self._notes.producer(by)
                names.learn_producer(
                    await cluster.append_in_transaction(producer, topic(name), partition, batch(*values)), by
                )
            case EndTransaction(by, commits):
                await cluster.end_transaction(self._notes.producer(by), commits=commits)

    async def _send(self, step: Send) -> None:
        connection = await self._connections.to(self._broker(step), step.by)
        label = self._label(step) if step.recorded else _UNRECORDED
        if connection.waits_for:
            self._answers[label] = NOT_ASKED
            return
        fields = self._notes.fill(step.fields)
        if step.api is Api.JOIN_GROUP:
            self._notes.joins(step.by, fields["group_instance_id"])
        if step.api in _OBSERVING:
            await trio.sleep(_VISIBLE_SECONDS)
        version = self._versions[step.api] if step.version is None else step.version
        message = request(MESSAGES[step.api], version, **fields)
        await connection.send(message)
        connection.waits_for = label
        if not message.expect_response():
            await self._record_hang_up(connection)
            return
        answer = await self._receive(connection, _HELD_SECONDS if step.may_be_held else _ANSWER_SECONDS)
        if not step.recorded:
            del self._answers[label]
        if isinstance(answer, FindCoordinatorResponse):
            await self._name_coordinators(answer, fields["coordinator_keys"])
        if step.retry_with_id and getattr(answer, "error_code", 0) == ErrorCode.MEMBER_ID_REQUIRED:
            self._answers[f"{label}, id"] = self._answers.pop(label)
            await self._send(attrs.evolve(step, retry_with_id=False))

    async def _receive(self, connection: Connection, timeout: float, when: str = "") -> Any:
        """Record the response that the connection waits for.

        Without one in time record SILENT if it had to arrive (`timeout` is _ANSWER_SECONDS), and HELD otherwise.
        """
        with trio.move_on_after(timeout):
            await connection.answered.wait()
        if timeout == _HELD_SECONDS and not connection.answered.is_set():
            # On a busy machine that may be too short. But a coordinator handles one request after the other: once it
            # responds to this one, it has handled the earlier one.
            await self._describe_group()
        answer = connection.answer if connection.answered.is_set() else SILENT if timeout == _ANSWER_SECONDS else HELD
        label = f"{connection.waits_for}"
        self._answers[self._numbered(f"{label}{when}") if when else label] = answer
        if answer is not HELD:
            connection.waits_for = None
        if answer is HUNG_UP:
            self._connections.forget(connection)
        self._notes.learn(connection.name, answer)
        return answer

    async def _record_hang_up(self, connection: Connection) -> None:
        """Record whether the broker closes the connection after a request without a response; that means an error.

        It handles the requests of a connection one after the other, so it responds to the next one if it does not.
        """
        await connection.send(request(DescribeGroupsRequest, 0, groups=[self._notes.group]))
        with trio.fail_after(_ANSWER_SECONDS):
            await connection.answered.wait()
        is_closed = connection.answer is HUNG_UP
        self._answers[f"{connection.waits_for}"] = HUNG_UP if is_closed else NOT_DUE
        connection.waits_for = None
        if is_closed:
            self._connections.forget(connection)

    async def _describe_group(self) -> _GroupState:
        observer = await self._connections.to(self._coordinator, "observer")
        await observer.send(request(DescribeGroupsRequest, 0, groups=[self._notes.group]))
        await observer.answered.wait()
        [group] = observer.answer.groups
        return _GroupState(group.group_state, [member.member_id for member in group.members])

    async def _name_coordinators(self, answer: Any, groups: list[str]) -> None:
        """Replace node ids and addresses in a response by names, if it has the right broker."""
        for found in answer.coordinators or [answer]:
            leader = await self._stage.offsets_leader(found.key if answer.coordinators else groups[0])
            if (found.node_id, found.host, found.port) == leader:
                found.node_id, found.host, found.port = "<leader of the group's offsets>", "<its host>", "<its port>"

    # Names

    def _broker(self, step: Send) -> Broker:
        if step.broker is not None:
            return self._stage.brokers[step.broker]
        return self._coordinator if step.at_coordinator else self._other

    def _label(self, step: Send) -> str:
        where = "" if step.at_coordinator else " elsewhere"
        if step.broker:
            where = f" at broker {step.broker}"
        return self._numbered(f"{step.by} {step.api.name}{where}")

    def _numbered(self, label: str) -> str:
        self._labels[label] += 1
        return label if self._labels[label] == 1 else f"{label} #{self._labels[label]}"
