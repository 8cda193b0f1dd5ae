"""Calls of assignors, which may be user code: exceptions name the assignor, and results are checked.

Members trust the assignment that their leader sends. A partition assigned twice is read twice, and a partition that
does not exist makes its member fail. Invalid results are therefore refused here, before they are sent. The assignors
themselves are checked when a group is created (`usable`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from sarameya.errors import AssignorError, ConfigError
from sarameya.model import Assignment, TopicPartition
from sarameya.protocol.assignors.base import Assignor, RebalanceProtocol, Subscription, TopicLayout


def usable(assignors: Sequence[Assignor]) -> tuple[Assignor, ...]:
    """Validate the assignors of one member, preferred first. Raises ConfigError if they are invalid or incompatible."""
    if not isinstance(assignors, Sequence):
        raise ConfigError("assignors", assignors, "must be a list of assignors, best first")
    for assignor in assignors:
        if isinstance(assignor, type) and issubclass(assignor, Assignor):
            raise ConfigError("assignors", assignor, f"is a class: give an instance of it, {assignor.__name__}(...)")
        if not isinstance(assignor, Assignor):
            raise ConfigError("assignors", assignor, "is not an instance of a subclass of sarameya.Assignor")
        name = getattr(assignor, "name", None)
        if not isinstance(name, str) or not name:
            raise ConfigError("assignors", assignor, f"its `name` must be a non-empty string, not {name!r}")
        protocols = assignor.protocols
        is_set = isinstance(protocols, Iterable) and not isinstance(protocols, str)
        if not is_set or not protocols or not all(isinstance(each, RebalanceProtocol) for each in protocols):
            raise ConfigError(
                "assignors", assignor, f"its `protocols` must be RebalanceProtocols, and are {protocols!r}"
            )
    names = [assignor.name for assignor in assignors]
    if len(set(names)) < len(names):
        raise ConfigError("assignors", names, "names an assignor twice; members agree on assignors by name")
    if assignors and not frozenset.intersection(*(frozenset(assignor.protocols) for assignor in assignors)):
        raise ConfigError("assignors", names, "must all support one rebalance protocol, eager or cooperative")
    return tuple(assignors)


def assign(
    assignor: Assignor,
    members: Mapping[str, Subscription],
    topics: Mapping[str, TopicLayout],
    *,
    is_cooperative: bool,
) -> dict[str, Assignment]:
    """Call the assignor, and return its result.

    Args:
        assignor: The assignor.
        members: Subscription of each member, by member id.
        topics: Layout of each existing topic, by name.
        is_cooperative: True if members keep what they own during the rebalance: no other member may get it (KIP-429).

    Raises:
        AssignorError: The assignor has raised, or its result is invalid.
    """
    with _errors_named(assignor, "assign() raised"):
        result = assignor.assign(members, topics)
    with _errors_named(assignor, "assign() must return member id -> topic -> partition numbers; reading that raised"):
        assignments = {member_id: _tuples(assignment) for member_id, assignment in result.items()}
        owners = _owners(assignor.name, assignments, members, topics)
        if is_cooperative:
            _check_owned_partitions(assignor.name, owners, members)
        return assignments


def subscription_user_data(assignor: Assignor) -> bytes | None:
    """Return the user data of this member's subscription. Raises AssignorError, as `assign` does."""
    with _errors_named(assignor, "subscription_user_data() raised"):
        user_data = assignor.subscription_user_data()
    return _bytes(assignor, "subscription_user_data()", user_data)


def assignment_user_data(assignor: Assignor, member_id: str, assignment: Assignment) -> bytes | None:
    """Return the user data of that member's assignment. Raises AssignorError, as `assign` does."""
    with _errors_named(assignor, f"assignment_user_data() for member {member_id} raised"):
        user_data = assignor.assignment_user_data(member_id, assignment)
    return _bytes(assignor, f"assignment_user_data() for member {member_id}", user_data)


def on_assignment(assignor: Assignor, assignment: Assignment, user_data: bytes | None, generation: int) -> None:
    """Notify the assignor of this member's assignment. Raises AssignorError if the assignor raises."""
    with _errors_named(assignor, f"on_assignment() of generation {generation} raised"):
        assignor.on_assignment(assignment, user_data, generation)


@contextmanager
def _errors_named(assignor: Assignor, context: str) -> Iterator[None]:
    """Convert any exception of a block to an AssignorError that names the assignor and the call."""
    try:
        yield
    except AssignorError:
        raise
    except Exception as error:
        raise AssignorError(assignor.name, f"{context} {type(error).__name__}: {error}") from error


def _bytes(assignor: Assignor, call: str, user_data: object) -> bytes | None:
    if user_data is None or isinstance(user_data, bytes):
        return user_data
    raise AssignorError(assignor.name, f"{call} returned {type(user_data).__name__}, not bytes or None")


def _tuples(assignment: Assignment) -> Assignment:
    return {topic: tuple(numbers) for topic, numbers in assignment.items()}


def _owners(
    name: str,
    assignments: Mapping[str, Assignment],
    members: Mapping[str, Subscription],
    topics: Mapping[str, TopicLayout],
) -> dict[str, list[str | None]]:
    """Return the owner of each partition, by topic. Raises AssignorError for an invalid assignment."""
    owners: dict[str, list[str | None]] = {topic: [None] * layout.partitions for topic, layout in topics.items()}
    for member_id, assignment in assignments.items():
        if member_id not in members:
            raise AssignorError(name, f"it assigns to {member_id!r}, which is not a member of the group")
        subscribed = frozenset(members[member_id].topics)
        for topic, numbers in assignment.items():
            of_topic = owners.get(topic, [])
            for number in numbers:
                if not 0 <= number < len(of_topic):
                    problem = "there is no such partition"
                elif topic not in subscribed:
                    problem = "the member does not subscribe to the topic"
                elif (other := of_topic[number]) is not None:
                    problem = f"it is assigned to member {other} already"
                else:
                    of_topic[number] = member_id
                    continue
                raise AssignorError(
                    name, f"it assigns {TopicPartition(topic, number)} to member {member_id}: {problem}"
                )
    return owners


def _check_owned_partitions(
    name: str, owners: Mapping[str, list[str | None]], members: Mapping[str, Subscription]
) -> None:
    """Raise AssignorError if a member gets a partition that another member still owns."""
    owned = (
        (member_id, topic, number)
        for member_id, subscription in members.items()
        for topic, numbers in subscription.owned_partitions.items()
        for number in numbers
        if number < len(owners.get(topic, ()))
    )
    for member_id, topic, number in owned:
        taker = owners[topic][number]
        if taker is not None and taker != member_id and number not in members[taker].owned_partitions.get(topic, ()):
            raise AssignorError(
                name,
                f"it assigns {TopicPartition(topic, number)} to member {taker} while member {member_id} owns it: a "
                f"cooperative assignor assigns it to no member now, and to member {taker} in the next round (KIP-429)",
            )
