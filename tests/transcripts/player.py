"""Plays transcripts on a stage, by raw requests, and records the answers. Trio.

`play` is one transcript in one profile of versions. A play has groups and topics of its own; what its clients are told
is kept in `notes`, and how they are connected is the matter of `connections`.
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
from tests.transcripts.answers import Plain, plain
from tests.transcripts.batches import batch
from tests.transcripts.connections import HUNG_UP, Connection, Connections
from tests.transcripts.golden import Answers
from tests.transcripts.notes import Notes
from tests.transcripts.script import (
    Ask,
    Await,
    Change,
    DeleteRecords,
    DeleteTopic,
    EndTransaction,
    InTransaction,
    Look,
    MoveLeader,
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

_PATIENCE = 20.0
"""Seconds for an answer that has to come."""
_MOMENT = 0.25
"""Seconds for one that may be held."""
_UNTIL_SEEN = 0.1
"""Seconds. Kafka 4 shows what is in its log for good, which is a moment after it was answered."""
_OBSERVING = (Api.DESCRIBE_GROUPS, Api.LIST_GROUPS)
_AT_A_TIME = 60

_plays = count(1)

Chosen = Callable[[Transcript, str], bool]
"""Whether a transcript is played in a profile."""


def everything(_transcript: Transcript, _profile: str) -> bool:
    return True


async def play_all(
    stage: Stage, transcripts: Iterable[Transcript], chosen: Chosen = everything
) -> dict[tuple[str, str], Answers]:
    """The answers of all plays, many at a time: (transcript, profile) -> answers; of those that are `chosen`.

    Groups come first, while the topics are made, since Kafka 3 looks for empty groups to delete whenever a topic goes.
    Those that depend on time come then, when nothing else keeps the machine from being in time; then logs.
    """
    plays = [(t, profile) for t in transcripts for profile in t.profiles if chosen(t, profile)]
    notes = [Notes(f"{stage.run}-play-{next(_plays)}") for _ in plays]
    done: dict[tuple[str, str], Answers] = {}
    limit = trio.CapacityLimiter(_AT_A_TIME)

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
    """The topics of all plays at once, which takes a hundredth of the time."""
    wanted = {
        notes.topic(name): (notes, name, partitions)
        for notes, transcript in plays
        for name, partitions in transcript.topics.items()
    }
    ids = await stage.create({topic: partitions for topic, (_, _, partitions) in wanted.items()}) if wanted else {}
    for topic, (notes, name, _) in wanted.items():
        notes.learn_topic(name, ids[topic])


async def play(stage: Stage, transcript: Transcript, profile: str, notes: Notes) -> Answers:
    """The answers of one play, by step; a step is called by who asks what, from the second time on with a number."""
    async with trio.open_nursery() as nursery:
        connections = Connections(stage, nursery)
        run = _Play(stage, PROFILES[profile], notes, connections, is_about_groups=not transcript.topics)
        await run.find_coordinator()
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
        """Drop the answers so far: the transcript is about those that follow."""
        self._answers.clear()
        self._labels.clear()

    def recorded(self) -> Answers:
        return {label: self._plain(answer) for label, answer in self._answers.items()}

    def _plain(self, answer: Any) -> Plain:
        match answer:
            case str():
                return answer
            case _Sight(state, members):
                return " ".join([state, *sorted(map(self._notes.names.of, members))])
            case _:
                return plain(answer, self._notes.names)

    # Steps

    async def take(self, step: Step) -> None:
        match step:
            case Ask():
                await self._ask(step)
            case Await(by):
                for connection in [c for c in self._connections if c.name == by and c.waits_for]:
                    await self._receive(connection, _PATIENCE, ", then")
            case Look():
                await trio.sleep(_MOMENT)
                sight = await self._look_at_group()
                for connection in [c for c in self._connections if c.waits_for]:
                    await self._receive(connection, 0, ", looked at")
                if self._is_about_groups:
                    self._answers[self._numbered("the group")] = sight
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
            case DeleteTopic(name, made_anew):
                await self._stage.delete(topic(name))
                if made_anew:
                    ids = await self._stage.create({topic(name): 1})
                    self._notes.learn_topic(name, ids[topic(name)], later=True)
            case InTransaction(by, name, partition, values):
                producer = self._notes.producer(by)
                names.learn_producer(
                    await cluster.append_in_transaction(producer, topic(name), partition, batch(*values)), by
                )
            case EndTransaction(by, commits):
                await cluster.end_transaction(self._notes.producer(by), commits=commits)

    async def _ask(self, step: Ask) -> None:
        connection = await self._connections.to(self._broker(step), step.by)
        label = self._label(step) if step.recorded else _UNRECORDED
        if connection.waits_for:
            self._answers[label] = NOT_ASKED
            return
        fields = self._notes.fill(step.fields)
        if step.api is Api.JOIN_GROUP:
            self._notes.joins(step.by, fields["group_instance_id"])
        if step.api in _OBSERVING:
            await trio.sleep(_UNTIL_SEEN)
        version = self._versions[step.api] if step.version is None else step.version
        ask = request(MESSAGES[step.api], version, **fields)
        await connection.send(ask)
        connection.waits_for = label
        if not ask.expect_response():
            await self._see_whether_hung_up(connection)
            return
        answer = await self._receive(connection, _MOMENT if step.may_be_held else _PATIENCE)
        if not step.recorded:
            del self._answers[label]
        if isinstance(answer, FindCoordinatorResponse):
            await self._name_coordinators(answer, fields["coordinator_keys"])
        if step.comes_back and getattr(answer, "error_code", 0) == ErrorCode.MEMBER_ID_REQUIRED:
            self._answers[f"{label}, id"] = self._answers.pop(label)
            await self._ask(attrs.evolve(step, comes_back=False))

    async def _receive(self, connection: Connection, patience: float, when: str = "") -> Any:
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
            self._connections.forget(connection)
        self._notes.learn(connection.name, answer)
        return answer

    async def _see_whether_hung_up(self, connection: Connection) -> None:
        """A request without an answer was wrong where the broker hangs up, soon or before it answers the next."""
        with trio.move_on_after(_MOMENT):
            await connection.answered.wait()
        self._answers[f"{connection.waits_for}"] = HUNG_UP if connection.answered.is_set() else NOT_DUE
        connection.waits_for = None
        if connection.answered.is_set():
            self._connections.forget(connection)

    async def _look_at_group(self) -> _Sight:
        observer = await self._connections.to(self._coordinator, "observer")
        await observer.send(request(DescribeGroupsRequest, 0, groups=[self._notes.group]))
        await observer.answered.wait()
        [group] = observer.answer.groups
        return _Sight(group.group_state, [member.member_id for member in group.members])

    async def _name_coordinators(self, answer: Any, groups: list[str]) -> None:
        """Replace ids and addresses by a word, if the answer names the right broker."""
        for found in answer.coordinators or [answer]:
            leader = await self._stage.offsets_leader(found.key if answer.coordinators else groups[0])
            if (found.node_id, found.host, found.port) == leader:
                found.node_id, found.host, found.port = "<leader of the group's offsets>", "<its host>", "<its port>"

    # Names

    def _broker(self, step: Ask) -> Broker:
        if step.broker is not None:
            return self._stage.brokers[step.broker]
        return self._coordinator if step.at_coordinator else self._other

    def _label(self, step: Ask) -> str:
        where = "" if step.at_coordinator else " elsewhere"
        if step.broker:
            where = f" at broker {step.broker}"
        return self._numbered(f"{step.by} {step.api.name}{where}")

    def _numbered(self, label: str) -> str:
        self._labels[label] += 1
        return label if self._labels[label] == 1 else f"{label} #{self._labels[label]}"
