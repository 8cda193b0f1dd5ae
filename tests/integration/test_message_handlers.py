"""Message handlers on Apache Kafka: members that end while messages are in flight, and threads that block."""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Iterable

import pytest
import trio

from sarameya import CommittedOffset, TopicPartition
from sarameya.protocol.completion_tracker import Completion
from tests.integration.peers.lines import MemberOptions
from tests.integration.peers.running import Peer, Peers, open_peers
from tests.integration.real_kafka import RealKafka
from tests.integration.real_kafka.producing import send

pytestmark = pytest.mark.integration

SECONDS = 120.0
SESSION_TIMEOUT = 6.0
"""Long enough for a busy machine: an undisturbed member must not lose its membership."""
KEYS = 400
"""Keys of each partition: the key of a message is its offset modulo this number."""
ROUNDS = 3
"""Messages of each key. Those of every second key are held back: 200 in each partition are in flight then."""
COUNT = KEYS * ROUNDS

Place = tuple[int, int]
"""Partition and offset."""
Claim = tuple[str, int, int]
"""Client id, partition, and how often the member was assigned it so far."""


async def produce(kafka: RealKafka, topic: str, offsets: Iterable[int], held: bool) -> None:
    """Produce messages that get these offsets, in both partitions."""
    records = [
        {"partition": number, "key": b"%d" % (n % KEYS), "value": b"held" if held and n % 2 else b"quick"}
        for n in offsets
        for number in (0, 1)
    ]
    await trio.to_thread.run_sync(send, kafka, topic, records)


def finished_by(commit: CommittedOffset) -> set[int]:
    """Return the offsets that a commit reports as finished."""
    found = Completion.of_commit(commit)
    return set(range(commit.offset)) if found is None else set(range(found.end)) - set(found.unfinished)


def in_flight(member: Peer) -> int:
    return len(member.reports("begun")) - len(member.messages)


async def start_two(peers: Peers, kafka: RealKafka, kind: str, topic: str, **options: object) -> tuple[Peer, Peer]:
    """Start a group of two members, and wait until each has one of the topic's two partitions."""
    chosen = {"session_timeout": SESSION_TIMEOUT, **options}
    one, two = [
        await peers.start(kind, MemberOptions(kafka.bootstrap_servers[0], topic, topic, name, **chosen))  # type: ignore[arg-type]
        for name in ("one", "two")
    ]
    await peers.until(lambda: len(one.owned()) == len(two.owned()) == 1)
    return one, two


def check_order_and_repeats(peers: Peers, disturbed: Claim, known: set[Place]) -> set[Place]:
    """Check the order by key, and that each message is repeated only if no commit could report it as finished.

    Args:
        peers: The members.
        disturbed: The claim whose member was killed or stopped.
        known: The messages that the last commit of this claim reports as finished.

    Returns:
        The handled messages.
    """
    reports = [(line, peer.client_id) for peer in peers.all for line in peer.lines]
    claims = Counter[tuple[str, int]]()
    begun: set[tuple[Claim, Place]] = set()
    finished: dict[Place, Claim] = {}
    for line, client_id in sorted(reports, key=lambda report: report[0].at):
        if line.event == "assigned":
            claims.update((client_id, number) for number in line.partitions)
        elif line.event in ("begun", "message"):
            number, offset = place = line.place
            claim = (client_id, number, claims[client_id, number])
            if line.event == "message":
                finished.setdefault(place, claim)
                continue
            assert (claim, place) not in begun, f"{place} is repeated in one claim"
            begun.add((claim, place))
            assert offset < KEYS or (number, offset - KEYS) in finished, (
                f"{place} started before the previous message of its key was finished"
            )
            # The disturbed member may go on with its messages. Its successor does not know what it has not committed.
            if place in finished and claim != disturbed:
                assert finished[place] == disturbed, (
                    f"{place} is repeated, although its member had finished and committed it"
                )
                assert place not in known, f"{place} is repeated in spite of the commit"
    return set(finished)


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP], ids=["killed", "stopped"])
async def test_member_that_ends_with_200_in_flight_loses_nothing(real_kafka: RealKafka, how: signal.Signals) -> None:
    topic = real_kafka.create_topic(f"in-flight-{how.name}", 2)
    with trio.fail_after(SECONDS):
        async with open_peers() as peers:
            one, two = await start_two(peers, real_kafka, "message-handler", topic, strategy="cooperative-sticky")
            await produce(real_kafka, topic, range(COUNT), held=True)
            await peers.until(lambda: in_flight(one) == in_flight(two) == KEYS // 2)
            quick = set(range(0, COUNT, 2))
            await real_kafka.until_commits(
                topic, lambda c: len(c) == 2 and all(finished_by(x) >= quick for x in c.values())
            )

            (lost,) = one.owned()
            one.send_signal(signal.SIGUSR1)
            await peers.until(lambda: len(one.messages) >= COUNT // 2 + 50)
            if how == signal.SIGKILL:
                await one.kill()
            else:
                one.send_signal(how)
            await peers.until(lambda: len(two.owned()) == 2)
            commits = await real_kafka.until_commits(topic)
            known = {(lost, offset) for offset in finished_by(commits[TopicPartition(topic, lost)])}
            two.send_signal(signal.SIGUSR1)
            if how == signal.SIGSTOP:
                one.send_signal(signal.SIGCONT)
                await peers.until(lambda: len(one.reports("assigned")) > 1)
            await real_kafka.until_committed(topic, 2 * COUNT, SECONDS)

            # A commit of the stopped member must not have replaced a later one.
            await produce(real_kafka, topic, range(COUNT, COUNT + KEYS), held=False)
            await real_kafka.until_committed(topic, 2 * (COUNT + KEYS), SECONDS)
            for member in peers.live:
                await member.stop()
    handled = check_order_and_repeats(peers, ("one", lost, 1), known)
    assert handled == {(number, offset) for number in (0, 1) for offset in range(COUNT + KEYS)}


async def test_threads_blocking_for_three_session_timeouts_stay_members(real_kafka: RealKafka) -> None:
    topic, seconds = real_kafka.create_topic("blocking-threads", 2), 3 * SESSION_TIMEOUT
    with trio.fail_after(SECONDS):
        async with open_peers() as peers:
            one, two = await start_two(peers, real_kafka, "threads", topic)
            records = [{"partition": n % 2, "key": b"%d" % n, "value": b"%g" % seconds} for n in range(4)]
            await trio.to_thread.run_sync(send, real_kafka, topic, records)
            await peers.until(lambda: len(one.messages) == len(two.messages) == 2)
            for member in (one, two):
                first = member.lines.index(member.reports("begun")[0])
                assert [line.event for line in member.lines[first:]] == ["begun"] * 2 + ["message"] * 2
                # One second less, since the wall clock may be adjusted meanwhile.
                assert member.messages[0].at - member.lines[first].at >= seconds - 1
            await real_kafka.until_committed(topic, 4, SECONDS)
            for member in (one, two):
                await member.stop()
