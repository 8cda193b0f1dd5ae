"""The document of a whole group, merged from Kafka's view and the documents of members' services. Pure.

Services report more than Kafka does. Kafka also reports members without an endpoint and partitions without a reader. A
member is identified by its member id, even if it answers at several URLs. A partition has one row, even if several
members claim to read it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import attrs

from sarameya._version import __version__
from sarameya.model import TopicPartition, topic_partitions
from sarameya.protocol.cluster.described_groups import STABLE, DescribedGroup, DescribedMember
from sarameya.service.dashboard.endpoint_document import Document
from sarameya.service.web.time_series import lag_of

_MAX_ROWS = 100
"""The maximum number of events, and of batches, of all services together."""
_BY_WORKER = ("members", "partitions", "events", "landings")
"""Keys whose rows belong to one member each."""


@attrs.frozen(slots=True)
class KafkaView:
    """Kafka's view of a group. `ends` covers partitions with a commit or a member."""

    group: DescribedGroup
    committed: Mapping[TopicPartition, int]
    ends: Mapping[TopicPartition, int]


def merge_documents(
    known: KafkaView, services: Mapping[str, Document | str], at: float, *, kafka_trouble: str = ""
) -> Document:
    """Return the document of the page (`web.status_document`).

    Args:
        known: Kafka's view of the group.
        services: For each host:port, the document of a member's service, or the reason why there is none.
        at: Seconds since 1970.
        kafka_trouble: The reason why Kafka's view is old; empty if it is not.
    """
    documents, same = _each_once(
        {name: document for name, document in services.items() if not isinstance(document, str)}
    )
    partitions, disputed = _partitions(known, documents)
    distinct = {name: document for name, document in services.items() if name not in same}
    # While a partition moves, both members may report it: their reports are not of the same moment.
    is_dispute = known.group.state == STABLE
    reasons = [
        *(disputed if is_dispute else ()),
        *_service_problems(distinct),
        *([kafka_trouble] if kafka_trouble else _group_problems(known.group)),
    ]
    members = [*_members(known.group, documents)]
    return {
        "version": __version__,
        "group": known.group.group,
        "at": at,
        "stopping": "",
        "ready": not reasons,
        "reasons": reasons,
        "explained": [
            *(() if is_dispute else disputed),
            *(f"{name}: {line}" for name, document in documents.items() for line in document["explained"]),
            *(f"{name}: the same as {first}" for name, first in same.items()),
            *(
                f"{row['host']} {row['worker']}: has no endpoint here"
                for row in members
                if row["host"] not in documents
            ),
        ],
        "members": members,
        "partitions": partitions,
        "events": _latest(documents, "events"),
        "landings": _latest(documents, "landings"),
        "point": {
            "at": at,
            "lag": lag_of(row["lag"] for row in partitions),
            "records": _rate_of(documents, "records"),
            "landed": _rate_of(documents, "landed"),
            "committed_lag": lag_of(row["committed_lag"] for row in partitions),
        },
    }


def _rate_of(documents: Mapping[str, Document], rate: str) -> float:
    """Return the sum of a rate over all services; -1 without a service, since Kafka does not know members' rates."""
    return sum(document["point"].get(rate, 0.0) for document in documents.values()) if documents else -1


def _each_once(documents: Mapping[str, Document]) -> tuple[dict[str, Document], dict[str, str]]:
    """Return each service's document under its first URL, and the first URL for every further URL.

    If several services report a member, only the first of them keeps it.
    """
    once: dict[str, Document] = {}
    same: dict[str, str] = {}
    url_of: dict[str, str] = {}
    for name, document in documents.items():
        ids = {row["worker"]: row.get("member_id") or "" for row in document["members"]}
        twice = {worker for worker, member_id in ids.items() if member_id in url_of}
        if twice and twice == ids.keys():
            same[name] = url_of[ids[min(twice)]]
            continue
        once[name] = {
            **document,
            **{key: [row for row in document[key] if row["worker"] not in twice] for key in _BY_WORKER},
        }
        url_of |= {member_id: name for member_id in ids.values() if member_id and member_id not in url_of}
    return once, same


def _members(group: DescribedGroup, documents: Mapping[str, Document]) -> Iterator[Document]:
    """Yield the members that services report, and those that only Kafka knows."""
    rows = [{**row, "host": name} for name, document in documents.items() for row in document["members"]]
    reported = {row.get("member_id") for row in rows}
    yield from rows
    for member in group.members:
        if member.member_id not in reported:
            yield {
                "host": host_of(member),
                "worker": member.client_id,
                "pid": 0,
                "failure": "",
                "state": f"{group.state.lower()}, by Kafka",
                "seconds": -1,
                "member_id": member.member_id,
                "assignor": group.assignor,
                "assigned": len(topic_partitions(member.assignment or {})),
            }


def _partitions(known: KafkaView, documents: Mapping[str, Document]) -> tuple[list[Document], list[str]]:
    """Return a row for each partition, and a line for each partition that several members claim to read.

    Only one member of a group may read a partition. If several claim it, the row is from its owner in Kafka's view.
    """
    owners = {tp: member for member in known.group.members for tp in topic_partitions(member.assignment or {})}
    rows: dict[TopicPartition, Document] = {}
    claimed: dict[TopicPartition, list[str]] = {}
    for name, document in documents.items():
        ids = {row["worker"]: row.get("member_id") for row in document["members"]}
        for row in document["partitions"]:
            partition = TopicPartition(row["topic"], row["partition"])
            claimed.setdefault(partition, []).append(f"{name} {row['worker']}")
            is_owner = partition in owners and ids.get(row["worker"]) == owners[partition].member_id
            if partition not in rows or is_owner:
                rows[partition] = _member_row(name, row, partition, known)
    for partition in sorted((owners.keys() | known.committed.keys()) - rows.keys()):
        rows[partition] = _kafka_row(partition, owners.get(partition), known)
    disputed = [f"{partition}: read by {' and by '.join(who)}" for partition, who in claimed.items() if len(who) > 1]
    return list(rows.values()), disputed


def _member_row(name: str, row: Document, partition: TopicPartition, known: KafkaView) -> Document:
    """Return the row as its member reports it, with Kafka's newer offsets."""
    committed = known.committed.get(partition, row["committed"])
    end = max(row["high_water_mark"], known.ends.get(partition, -1))
    lag = _lag_at(row, end)
    if lag < 0:
        lag = _lag_by_commit(partition, known)
    grown = end - row["high_water_mark"] if row["high_water_mark"] >= 0 else 0
    return {
        **row,
        "host": name,
        "committed": committed,
        "high_water_mark": end,
        "lag": lag,
        "committed_lag": _committed_lag(row, partition, known, grown),
        "landed_lag": row["landed_lag"] + grown if row.get("landed_lag", -1) >= 0 else -1,
    }


def _committed_lag(row: Document, partition: TopicPartition, known: KafkaView, grown: int) -> int:
    """Return the committed lag: the member's, updated by Kafka's newer offsets. Return Kafka's if the member has none.

    Under read_committed, the member's log end is not Kafka's: records of an open transaction are no lag.
    """
    reported = row.get("committed_lag", -1)  # earlier versions of the service do not have it
    if reported < 0:
        return _lag_by_commit(partition, known)
    moved = max(known.committed.get(partition, row["committed"]) - row["committed"], 0)
    return int(max(reported + grown - moved, 0))


def _lag_at(row: Document, end: int) -> int:
    """Return the member's lag, plus the growth of the log since its report; -1 if unknown.

    The distance from its position to the end would be wrong: under read_committed, records of an open transaction are
    no lag.
    """
    if row["lag"] >= 0 and row["high_water_mark"] >= 0:
        return int(row["lag"] + end - row["high_water_mark"])
    distance: int = end - row["position"] if row["position"] >= 0 else -1
    return max(int(row["lag"]), distance)


def _kafka_row(partition: TopicPartition, owner: DescribedMember | None, known: KafkaView) -> Document:
    return {
        "topic": partition.topic,
        "partition": partition.partition,
        "host": "" if owner is None else host_of(owner),
        "worker": "nobody" if owner is None else owner.client_id,
        "activity": "not assigned" if owner is None else "assigned",
        "seconds": -1,
        "attempt": 0,
        "reason": "",
        "position": -1,
        "high_water_mark": known.ends.get(partition, -1),
        "lag": _lag_by_commit(partition, known),
        "committed_lag": _lag_by_commit(partition, known),
        "committed": known.committed.get(partition, -1),
        "landed": -1,
        "records_a_second": -1,
    }


def _lag_by_commit(partition: TopicPartition, known: KafkaView) -> int:
    """Return Kafka's committed lag; -1 if the committed offset or the log end is unknown."""
    if partition not in known.ends or partition not in known.committed:
        return -1
    return max(known.ends[partition] - known.committed[partition], 0)


def _service_problems(services: Mapping[str, Document | str]) -> Iterator[str]:
    for name, document in services.items():
        if isinstance(document, str):
            yield f"{name}: {document}"
        else:
            yield from (f"{name}: {reason}" for reason in document["reasons"])


def _group_problems(group: DescribedGroup) -> Iterator[str]:
    if not group.members:
        yield f"the group has no members: it is {group.state}"
    elif group.state != STABLE:
        yield f"the group is {group.state}"


def _latest(documents: Mapping[str, Document], key: str) -> list[Document]:
    rows = [{**row, "host": name} for name, document in documents.items() for row in document[key]]
    return sorted(rows, key=lambda row: (row["at"], row["number"]), reverse=True)[:_MAX_ROWS]


def host_of(member: DescribedMember) -> str:
    """Return the member's host without the slash that Kafka puts before an address."""
    return member.host.rpartition("/")[2]
