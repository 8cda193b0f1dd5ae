"""Requests as lines of text: the API, and the fields in which two runs of one schedule may differ."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from sarameya.embedded.apis import Call
from sarameya.model import TopicPartition, topic_partitions
from sarameya.protocol.rebalance import decode_assignment, decode_subscription
from sarameya.protocol.versions import Api


class RequestLines:
    """Describes the requests that brokers receive.

    Member ids are random text. A line has the client's name and a number instead, counted in order of appearance.
    """

    def __init__(self) -> None:
        self._names: dict[str, str] = {"": "nobody"}
        self._counts: dict[str, int] = {}

    def of(self, call: Call) -> Iterator[tuple[str, str]]:
        """Yield the channel and the text of each line; nothing for requests that no session causes."""
        api, body = call.request.api, call.body
        text = None
        match api:
            case Api.JOIN_GROUP:
                text = f"as {self._name(body.member_id)}, {_subscription(body)}, because {body.reason!r}"
            case Api.SYNC_GROUP:
                given = {self._name(each.member_id): _assigned(each.assignment) for each in body.assignments}
                assignments = ", ".join(f"{name}: {what}" for name, what in sorted(given.items()))
                text = f"as {self._name(body.member_id)} in {body.generation_id}, assigns {assignments or 'nothing'}"
            case Api.HEARTBEAT:
                text = f"as {self._name(body.member_id)} in {body.generation_id}"
            case Api.LEAVE_GROUP:
                text = ", ".join(f"as {self._name(each.member_id)}, because {each.reason!r}" for each in body.members)
            case Api.OFFSET_COMMIT:
                member = self._name(body.member_id)
                text = f"as {member} in {body.generation_id_or_member_epoch}: {_commits(body)}"
            case Api.OFFSET_FETCH:
                topics = [t for each in (body, *(body.groups or ())) for t in each.topics or ()]
                text = _listed(TopicPartition(t.name, number) for t in topics for number in t.partition_indexes)
            case Api.LIST_OFFSETS:
                requested = {
                    TopicPartition(t.name, p.partition_index): p.timestamp for t in body.topics for p in t.partitions
                }
                for partition, timestamp in sorted(requested.items()):
                    yield f"wire {api.name} {partition}", str(timestamp)
            case Api.FETCH:
                for partition, offset in _fetched(call):
                    yield f"wire {api.name} {partition}", f"from {offset}"
        if text is not None:
            yield f"wire {api.name}", text

    def _name(self, member_id: str) -> str:
        if member_id not in self._names:
            client = member_id.split("-", 1)[0]
            self._counts[client] = self._counts.get(client, 0) + 1
            self._names[member_id] = f"{client}#{self._counts[client]}"
        return self._names[member_id]


def _subscription(body: Any) -> str:
    offered = []
    for protocol in body.protocols:
        subscription = decode_subscription(protocol.metadata)
        owned = _listed(topic_partitions(subscription.owned_partitions))
        topics = ",".join(sorted(subscription.topics))
        offered.append(f"{protocol.name} of {topics}, owns {owned} since {subscription.generation_id}")
    return "; ".join(offered)


def _assigned(data: bytes) -> str:
    assignment, _ = decode_assignment(data)
    return _listed(topic_partitions(assignment))


def _commits(body: Any) -> str:
    commits = {
        f"{t.name}-{p.partition_index}@{p.committed_offset} ({p.committed_leader_epoch}) {p.committed_metadata or ''}"
        for t in body.topics
        for p in t.partitions
    }
    return ", ".join(sorted(each.rstrip() for each in commits))


def _fetched(call: Call) -> Iterator[tuple[TopicPartition, int]]:
    for entry in call.body.topics:
        topic = call.cluster.topics.by_id(entry.topic_id) if call.version >= 13 else None
        name = topic.name if topic is not None else getattr(entry, "topic", None) or "?"
        for partition in entry.partitions:
            yield TopicPartition(name, partition.partition), partition.fetch_offset


def _listed(partitions: Iterable[TopicPartition]) -> str:
    return " ".join(map(str, sorted(partitions))) or "nothing"
