"""`sarameya letters redrive` over the in-memory cluster, in virtual time: sent and refused letters, and progress."""

from __future__ import annotations

import os
import random
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from sarameya import DeadLetterTopic, Message, MessageHandler, RetryTopics, TopicPartition
from sarameya.error_codes import ErrorCode
from sarameya.errors import TopicAuthorizationError, UnknownTopicError
from sarameya.handling.letters import REDRIVEN
from sarameya.producer.partitioner import partition_of
from sarameya.protocol.versions import Api
from sarameya.service.groups.checks import GroupChangeError
from sarameya.service.groups.topic_choice import TopicChoice
from sarameya.service.letters import redrive as redrive_module
from sarameya.service.letters import redrive_progress
from sarameya.service.letters.filters import LetterFilter
from sarameya.service.letters.log_reader import Selection
from sarameya.service.letters.progress_store import ProgressChangedError
from sarameya.service.letters.redrive_report import NotSentError
from sarameya.service.output.error_report import exit_code
from sarameya.testing import VIRTUAL_EPOCH, CoordinatorConfig, memory_cluster
from tests.consumer.kit import edit_answers
from tests.group.kit import Recorder, committed, deadline, eventually, start_member
from tests.handling.kit import member_of
from tests.producer.kit import log
from tests.service.letters.kit import DEAD, GROUP, clients_of, failure_headers, partitions, redriven, sent, write

SOAK = int(os.environ.get("SARAMEYA_SOAK", "1"))


def only(**conditions: object) -> Selection:
    """Select the letters to which these conditions apply."""
    return Selection(TopicChoice(DEAD), filter=LetterFilter(**conditions))  # type: ignore[arg-type]


async def test_nothing_is_sent_without_execute(autojump_clock: MockClock) -> None:
    async with memory_cluster({DEAD: 2, "orders": 2}) as cluster:
        write(cluster, b"a", b"b", partition=1)
        write(cluster, b"c")
        write(cluster, b"d", error_class="KeyError")
        shown = await redriven(cluster, only(error_classes=("ValueError",)), execute=False)
        assert sent(cluster) == []
        assert committed(cluster, GROUP) == {}
    assert shown.errors == ()
    time = VIRTUAL_EPOCH * 1000
    assert shown.document == {
        "topic": DEAD,
        "group": GROUP,
        "executed": False,
        "letters": 3,
        "targets": [
            {
                "topic": "orders",
                "partition": 0,
                "letters": 3,
                "first": {"partition": 0, "offset": 0, "timestamp": time},
                "last": {"partition": 1, "offset": 1, "timestamp": time},
            }
        ],
        "refused": [],
        "not_matching": 1,
        "done_offsets": 0,
        "errors": [],
    }
    assert shown.text.splitlines() == [
        "TO      PARTITION  LETTERS  FIRST  LAST",
        "orders  0                3  0:0    1:1",
        "",
        "3 letters of topic 'orders.billing.dead' to send",
        "1 letter left out by the filters",
        "Nothing is sent yet: add --execute to do it.",
    ]


async def test_message_returns_to_its_partition_with_its_redrive_count(autojump_clock: MockClock) -> None:
    async with memory_cluster({DEAD: 1, "orders": 3}) as cluster:
        other = next(number for number in range(3) if number != partition_of(b"k", 3))
        write(cluster, b"a", partition=0, headers=failure_headers(partition=other, own=(("trace", b"7"),), redriven=1))
        cluster.produce(DEAD, 0, None, None, failure_headers(partition=other))
        await trio.sleep(60)
        await redriven(cluster)
        first, second = log(cluster, other, "orders")
    assert (first.key, first.value, first.headers) == (b"k", b"a", (("trace", b"7"), (REDRIVEN, b"2")))
    assert (second.key, second.value, second.headers) == (None, None, ((REDRIVEN, b"1"),))
    assert first.timestamp >= (VIRTUAL_EPOCH + 60) * 1000, (
        "a message with its original timestamp could be deleted at once by retention"
    )


async def test_second_redrive_sends_new_letters_only(autojump_clock: MockClock) -> None:
    async with memory_cluster({DEAD: 2, "orders": 1}) as cluster:
        write(cluster, b"a", b"b", partition=1)
        assert (await redriven(cluster)).document["letters"] == 2
        again = await redriven(cluster)
        assert (again.document["letters"], again.document["done_offsets"]) == (0, 2)
        write(cluster, b"c")
        write(cluster, b"d", partition=1)
        assert (await redriven(cluster)).document["letters"] == 2
        assert sent(cluster) == [b"a", b"b", b"c", b"d"]
        assert committed(cluster, GROUP) == {f"{DEAD}-0": 1, f"{DEAD}-1": 3}


async def test_progress_outlasts_the_brokers_retention_of_offsets(autojump_clock: MockClock) -> None:
    groups = CoordinatorConfig(offsets_retention=7 * 86_400.0)
    async with memory_cluster({DEAD: 1, "orders": 1}, groups=groups) as cluster:
        write(cluster, b"a")
        await redriven(cluster)
        await trio.sleep(365 * 86_400)
        assert (await redriven(cluster)).document["letters"] == 0
        assert sent(cluster) == [b"a"]


async def test_letters_excluded_by_filters_are_sent_later(autojump_clock: MockClock) -> None:
    async with memory_cluster({DEAD: 1, "orders": 1}) as cluster:
        for number in range(10):
            write(cluster, b"%d" % number, error="odd" if number % 2 else "even")
        await redriven(cluster, only(error_texts=("odd",)))
        assert sent(cluster) == [b"1", b"3", b"5", b"7", b"9"]
        assert committed(cluster, GROUP) == {f"{DEAD}-0": 0}
        await redriven(cluster)
        assert sent(cluster)[5:] == [b"0", b"2", b"4", b"6", b"8"]
        assert (await redriven(cluster)).document["letters"] == 0
        assert committed(cluster, GROUP) == {f"{DEAD}-0": 10}


async def test_letters_excluded_by_filters_may_count_as_done(autojump_clock: MockClock) -> None:
    async with memory_cluster({DEAD: 1, "orders": 1}) as cluster:
        for number in range(10):
            write(cluster, b"%d" % number, error="odd" if number % 2 else "even")
        await redriven(cluster, only(error_texts=("odd",)), skip_others=True)
        assert (await redriven(cluster)).document["letters"] == 0
        assert (await redriven(cluster, group="of the others")).document["letters"] == 10


async def test_too_old_letters_may_count_as_done(autojump_clock: MockClock) -> None:
    async with memory_cluster({DEAD: 1, "orders": 1}) as cluster:
        write(cluster, b"old")
        await trio.sleep(100)
        write(cluster, b"new")
        await redriven(cluster, only(since=(VIRTUAL_EPOCH + 50) * 1000), skip_others=True)
        await redriven(cluster)
        assert sent(cluster) == [b"new"]


async def test_letters_are_chosen_by_partition_offset_and_time(autojump_clock: MockClock) -> None:
    async with memory_cluster({DEAD: 2, "orders": 1}) as cluster:
        for number in range(10):
            write(cluster, b"%d" % number, partition=1)
            await trio.sleep(10)
        write(cluster, b"x")
        chosen = Selection(TopicChoice(DEAD, (1,)), (2, 8), LetterFilter(since=(VIRTUAL_EPOCH + 50) * 1000))
        await redriven(cluster, chosen)
        assert sent(cluster) == [b"5", b"6", b"7", b"8"]
        late = only(since=(VIRTUAL_EPOCH + 9999) * 1000)
        assert (await redriven(cluster, late)).document["letters"] == 0
        await redriven(cluster, limit=3)
        await redriven(cluster, limit=2)
        assert sent(cluster)[4:] == [b"x", b"0", b"1", b"2", b"3"]


async def test_topic_with_fewer_partitions_gets_messages_by_key(autojump_clock: MockClock) -> None:
    async with memory_cluster({DEAD: 1, "orders": 2}) as cluster:
        write(cluster, b"a", headers=failure_headers(partition=5))
        result = await redriven(cluster)
        assert result.document["targets"][0]["partition"] == partition_of(b"k", 2)
        assert [message.value for message in log(cluster, partition_of(b"k", 2))] == [b"a"]


async def test_other_topic_gets_messages_by_key(autojump_clock: MockClock) -> None:
    async with memory_cluster({DEAD: 1, "orders": 1, "other": 3}) as cluster:
        keys = [b"%d" % number for number in range(9)]
        for key in keys:
            write(cluster, key, key=key)
        write(cluster, b"none", key=None)
        result = await redriven(cluster, to="other")
        assert sent(cluster) == []
        assert sorted(filter(None, sent(cluster, "other"))) == sorted([*keys, b"none"])
        for number in range(3):
            assert all(partition_of(m.key, 3) == number for m in log(cluster, number, "other") if m.key is not None)
        assert {row["partition"] for row in result.document["targets"]} == {None, 0, 1, 2}


async def test_other_topic_needs_no_origin(autojump_clock: MockClock) -> None:
    async with memory_cluster({DEAD: 1, "other": 1}) as cluster:
        write(cluster, b"a", headers=(("own", b"x"),))
        result = await redriven(cluster)
        (error,) = result.errors
        assert str(error) == (
            "1 letter not sent, the first at orders.billing.dead-0 offset 0: the headers do not name the topic that it "
            "came from: name one by --to"
        )
        assert exit_code(error) == 2
        assert (await redriven(cluster, to="other", is_retry=True)).errors[0].args[0].endswith("use --to")
        await redriven(cluster, to="other")
        assert [(m.value, m.headers) for m in log(cluster, 0, "other")] == [(b"a", (("own", b"x"), (REDRIVEN, b"1")))]


async def test_letters_redriven_too_often_are_refused(autojump_clock: MockClock) -> None:
    async with memory_cluster({DEAD: 1, "orders": 1}) as cluster:
        for number in range(5):
            write(cluster, b"%d" % number, headers=failure_headers(redriven=number))
        result = await redriven(cluster)
        assert sent(cluster) == [b"0", b"1", b"2"]
        (error,) = result.errors
        assert str(error) == (
            "2 letters not sent, the first at orders.billing.dead-0 offset 3: redriven 3 times or more, and failed "
            "again: correct the cause, then raise --max-redrives"
        )
        assert exit_code(error) == 2
        assert result.document["refused"][0]["letters"] == 2
        assert (await redriven(cluster, max_redrives=4)).document["letters"] == 1
        assert sent(cluster) == [b"0", b"1", b"2", b"3"]
        assert committed(cluster, GROUP) == {f"{DEAD}-0": 4}


async def test_missing_topic_does_not_delay_other_letters(autojump_clock: MockClock) -> None:
    async with memory_cluster({DEAD: 1, "orders": 1}) as cluster:
        write(cluster, b"a", b"b", topic="gone")
        write(cluster, b"c")
        result = await redriven(cluster)
        assert sent(cluster) == [b"c"]
        (error,) = result.errors
        assert str(error).startswith(
            "2 letters not sent, the first at orders.billing.dead-0 offset 0: topic 'gone': UNK"
        )
        assert exit_code(error) == 1
        cluster.create_topic("gone", 1)
        assert (await redriven(cluster)).document["letters"] == 2


async def test_target_is_checked_before_anything_is_read(autojump_clock: MockClock) -> None:
    async with memory_cluster({DEAD: 1, "orders": 1}) as cluster:
        with pytest.raises(UnknownTopicError, match="topic 'gone'"):
            await redriven(cluster, to="gone")
        with pytest.raises(UnknownTopicError, match="topic 'gone'"):
            await redriven(cluster, Selection(TopicChoice("gone")))


async def test_refused_letter_is_named(autojump_clock: MockClock) -> None:
    async with memory_cluster({DEAD: 1, "orders": 1}) as cluster:
        write(cluster, *(b"%d" % number for number in range(5)))
        cluster.fail_next(Api.PRODUCE, ErrorCode.TOPIC_AUTHORIZATION_FAILED, None)
        result = await redriven(cluster)
        (error,) = result.errors
        assert isinstance(error, NotSentError)
        assert str(error).startswith("the letter at orders.billing.dead-0 offset 0 was not sent: ")
        assert exit_code(error) == 2
        assert (result.document["letters"], result.document["errors"]) == (0, [str(error)])
        cluster.clear_faults()
        await redriven(cluster)
        assert sent(cluster) == [b"0", b"1", b"2", b"3", b"4"]


async def test_too_large_letter_does_not_delay_others(autojump_clock: MockClock) -> None:
    large = random.Random(1).randbytes(30_000)
    async with memory_cluster({DEAD: 1, "orders": 1}) as cluster:
        cluster.log("orders", 0)._max_batch_size = 20_000
        write(cluster, b"a", b"b", large, b"c", b"d", large)
        result = await redriven(cluster)
        (error,) = result.errors
        assert str(error).startswith("2 letters not sent, the first at orders.billing.dead-0 offset 2: ")
        assert "MESSAGE_TOO_LARGE" in str(error)
        assert exit_code(error) == 2
        assert result.document["letters"] == 4
        assert committed(cluster, GROUP) == {f"{DEAD}-0": 2}
        assert len((await redriven(cluster)).errors) == 1
        assert sent(cluster) == [b"a", b"b", b"c", b"d"], "a letter beside a refused one was sent twice"
        cluster.log("orders", 0)._max_batch_size = 2**20
        assert (await redriven(cluster)).document["letters"] == 2
        assert committed(cluster, GROUP) == {f"{DEAD}-0": 6}


async def test_letter_sent_beside_a_failed_one_is_not_sent_again(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    def forbid(request: Any, answer: Any) -> None:
        for topic in answer.responses:
            for part in topic.partition_responses:
                if topic.name == "secret":
                    part.error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED

    async with memory_cluster({DEAD: 1, "orders": 1, "secret": 1}) as cluster:
        for number in range(3):
            write(cluster, b"%d" % number)
            write(cluster, b"x", topic="secret")
        edit_answers(monkeypatch, Api.PRODUCE, forbid)
        result = await redriven(cluster)
        (error,) = result.errors
        assert str(error).startswith("the letter at orders.billing.dead-0 offset 1 was not sent: ")
        assert result.document["letters"] == 3
        monkeypatch.undo()
        assert (await redriven(cluster)).document["letters"] == 3
        assert sent(cluster) == [b"0", b"1", b"2"]


async def test_sent_letters_are_counted_although_the_commit_fails(autojump_clock: MockClock) -> None:
    async with memory_cluster({DEAD: 1, "orders": 1}) as cluster, trio.open_nursery() as nursery:
        write(cluster, b"a", b"b")
        cluster.delay_next(Api.PRODUCE, 1.0)

        @nursery.start_soon
        async def forbid() -> None:
            await trio.sleep(0.5)
            cluster.fail_next(Api.OFFSET_COMMIT, ErrorCode.GROUP_AUTHORIZATION_FAILED)

        result = await redriven(cluster)
        assert sent(cluster) == [b"a", b"b"]
        assert (result.document["letters"], len(result.errors)) == (2, 1)


async def test_failed_commit_is_reported_before_the_first_letter(autojump_clock: MockClock) -> None:
    async with memory_cluster({DEAD: 1, "orders": 1}) as cluster:
        write(cluster, b"a")
        cluster.fail_next(Api.OFFSET_COMMIT, ErrorCode.GROUP_AUTHORIZATION_FAILED)
        (error,) = (await redriven(cluster)).errors
        assert "READ on the group" in str(error)
        cluster.fail_next(Api.OFFSET_COMMIT, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        (error,) = (await redriven(cluster)).errors
        assert isinstance(error, TopicAuthorizationError)
        assert sent(cluster) == []


async def test_group_with_members_is_refused(autojump_clock: MockClock) -> None:
    async with memory_cluster({DEAD: 1, "orders": 1}) as cluster, deadline() as nursery:
        write(cluster, b"a")
        handler = Recorder()
        await start_member(nursery, cluster, handler)
        await handler.until(lambda: "claim orders-0" in handler.calls)
        with pytest.raises(GroupChangeError, match="group 'g' is active"):
            await redriven(cluster, group="g")


@pytest.mark.parametrize("later", [0.0, 0.5, 2.5])
async def test_concurrent_redrives_detect_each_other(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch, later: float
) -> None:
    monkeypatch.setattr(redrive_module, "CHUNK_LETTERS", 5)
    async with memory_cluster({DEAD: 1, "orders": 1}) as cluster:
        letters = [b"%d" % number for number in range(50)]
        write(cluster, *letters)
        cluster.delay_next(Api.PRODUCE, 1.0, None)
        results = []

        async def run() -> None:
            results.append(await redriven(cluster))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(run)
            await trio.sleep(later)
            nursery.start_soon(run)
        cluster.clear_faults()
        (error,) = [error for result in results for error in result.errors]
        assert isinstance(error, ProgressChangedError)
        assert exit_code(error) == 1
        await redriven(cluster)
        assert {*sent(cluster)} == {*letters}
        assert len(sent(cluster)) <= 50 + 5


async def test_recreated_topic_has_no_progress(autojump_clock: MockClock) -> None:
    async with memory_cluster({DEAD: 1, "orders": 1}) as cluster:
        write(cluster, b"a", b"b")
        await redriven(cluster)
        cluster.delete_topic(DEAD)
        cluster.create_topic(DEAD, 1)
        write(cluster, b"c", b"d", b"e")
        await redriven(cluster)
        assert sent(cluster) == [b"a", b"b", b"c", b"d", b"e"]


async def test_letters_of_aborted_and_open_transactions_are_not_sent(autojump_clock: MockClock) -> None:
    async with memory_cluster({DEAD: 1, "orders": 1}) as cluster:
        cluster.produce_transactional(DEAD, 0, b"aborted", b"k", failure_headers(), producer_id=900)
        write(cluster, b"a")
        cluster.end_transaction(900, commit=False)
        cluster.produce_transactional(DEAD, 0, b"open", b"k", failure_headers(), producer_id=901)
        write(cluster, b"b")
        await redriven(cluster)
        assert sent(cluster) == [b"a"]
        cluster.end_transaction(901, commit=True)
        await redriven(cluster)
        assert sent(cluster) == [b"a", b"open", b"b"]


async def test_added_partition_is_read(autojump_clock: MockClock) -> None:
    async with memory_cluster({DEAD: 1, "orders": 1}) as cluster:
        write(cluster, b"a")
        await redriven(cluster)
        cluster._state.grow_topic(DEAD, 2)
        write(cluster, b"b", partition=1)
        await redriven(cluster)
        assert sent(cluster) == [b"a", b"b"]


async def test_progress_after_the_end_of_the_log_is_an_error(autojump_clock: MockClock) -> None:
    """Otherwise the next letters would count as sent."""
    async with memory_cluster({DEAD: 1, "orders": 1}) as cluster, clients_of(cluster).admin() as admin:
        write(cluster, b"a")
        await admin.commit(GROUP, {TopicPartition(DEAD, 0): 1})
        assert (await redriven(cluster)).document["letters"] == 0
        await admin.commit(GROUP, {TopicPartition(DEAD, 0): 2})
        with pytest.raises(GroupChangeError, match=f"offset 2 for {DEAD}-0, whose log ends at 1: .* another --group"):
            await redriven(cluster)


async def test_log_may_end_in_offsets_without_letters(autojump_clock: MockClock) -> None:
    async with memory_cluster({DEAD: 1, "orders": 1}) as cluster:
        write(cluster, b"a")
        cluster.produce_transactional(DEAD, 0, b"b", b"k", failure_headers(), producer_id=900)
        cluster.end_transaction(900, commit=True)
        with trio.fail_after(3):
            assert (await redriven(cluster)).document["letters"] == 2
        assert committed(cluster, GROUP) == {f"{DEAD}-0": 2}
        write(cluster, b"c")
        await redriven(cluster)
        assert committed(cluster, GROUP) == {f"{DEAD}-0": 4}


async def test_letters_deleted_by_retention_are_done(autojump_clock: MockClock) -> None:
    async with memory_cluster({DEAD: 1, "orders": 1}) as cluster:
        write(cluster, *(b"%d" % number for number in range(6)))
        await redriven(cluster, Selection(TopicChoice(DEAD), (1, 1)))
        cluster.delete_records(DEAD, 0, 4)
        result = await redriven(cluster)
        assert sent(cluster) == [b"1", b"4", b"5"]
        assert result.document["done_offsets"] == 0
        assert committed(cluster, GROUP) == {f"{DEAD}-0": 6}


@pytest.mark.parametrize(("start", "expected"), [(3, [b"3", b"4", b"5"]), (6, [])])
async def test_letters_may_be_deleted_before_they_are_read(
    autojump_clock: MockClock, start: int, expected: list[bytes]
) -> None:
    async with memory_cluster({DEAD: 1, "orders": 1}) as cluster, trio.open_nursery() as nursery:
        write(cluster, *(b"%d" % number for number in range(6)))
        cluster.delay_next(Api.OFFSET_FETCH, 1.0)

        @nursery.start_soon
        async def delete() -> None:
            await trio.sleep(0.5)
            cluster.delete_records(DEAD, 0, start)

        assert (await redriven(cluster)).errors == ()
        assert sent(cluster) == expected


async def test_too_many_gaps_are_an_error_before_a_letter_is_sent(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(redrive_progress, "METADATA_BYTES", 120)
    monkeypatch.setattr(redrive_module, "CHUNK_LETTERS", 5)
    async with memory_cluster({DEAD: 2, "orders": 1}) as cluster:
        for number in range(200):
            write(cluster, b"%d" % number, error="odd" if number % 2 else "even")
        write(cluster, b"in 1", partition=1, error="odd")
        odd = only(error_texts=("odd",))
        shown = await redriven(cluster, odd, execute=False)
        result = await redriven(cluster, odd)
        assert [str(error) for error in shown.errors] == [str(error) for error in result.errors]
        (error,) = result.errors
        assert "give the filters a --group of their own, with --skip-others" in str(error)
        assert exit_code(error) == 2
        first = sent(cluster)
        assert 0 < len(first) - 1 < 100
        assert len(first) == result.document["letters"] == shown.document["letters"]
        assert b"in 1" in first
        assert (await redriven(cluster, odd, group="odd", skip_others=True)).errors == ()
        assert (await redriven(cluster)).errors == ()
        assert {*sent(cluster)} == {b"in 1", *(b"%d" % number for number in range(200))}


def leaderless(request: Any, answer: Any) -> None:
    """Remove the leader of the second partition of the letters from a metadata response."""
    for topic in answer.topics:
        for part in topic.partitions:
            if (topic.name, part.partition_index) == (DEAD, 1):
                part.leader_id = -1


async def test_unreadable_partition_is_an_error_beside_the_others(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with memory_cluster({DEAD: 2, "orders": 1}) as cluster:
        write(cluster, b"a")
        write(cluster, b"b", partition=1)
        edit_answers(monkeypatch, Api.METADATA, leaderless)
        result = await redriven(cluster)
        assert sent(cluster) == [b"a"]
        assert [str(error) for error in result.errors] == [f"{DEAD}-1 cannot be read: the partition has no leader"]
        assert exit_code(result.errors[0]) == 1


async def test_hanging_broker_ends_the_redrive(autojump_clock: MockClock) -> None:
    async with memory_cluster({DEAD: 1, "orders": 1}) as cluster:
        write(cluster, b"a")
        cluster.delay_next(Api.FETCH, 10_000, None)
        with trio.fail_after(60):
            (error,) = (await redriven(cluster)).errors
        assert str(error) == (
            f"{DEAD}-0: nothing was read for 5 s at offset 0, before the log end 1; has it no leader? (--timeout)"
        )
        assert exit_code(error) == 1


class Handler(MessageHandler):
    """Fails each message while `fails` is true."""

    dead_letters = DeadLetterTopic()

    def __init__(self) -> None:
        self.fails = True
        self.handled: list[Message] = []

    async def handle(self, message: Message) -> None:
        if self.fails:
            raise ValueError("bad value")
        self.handled.append(message)


async def test_letters_of_a_retry_topic_reach_only_their_group(autojump_clock: MockClock) -> None:
    handler, others = Handler(), Recorder()
    handler.retry_topics, handler.fails = RetryTopics([60]), False
    async with (
        memory_cluster({DEAD: 1, "orders": 2}) as cluster,
        member_of(cluster) as group,
        deadline() as nursery,
    ):
        other = await start_member(nursery, cluster, others)
        nursery.start_soon(group.consume, ["orders"], handler)
        await eventually(lambda: partitions(cluster, "orders.billing.retry.1m") == 2)
        write(cluster, b"a", headers=failure_headers(partition=1, offset=99, own=(("trace", b"7"),)))
        await redriven(cluster, to="orders.billing.retry.1m", is_retry=True)
        await eventually(lambda: handler.handled != [])
        (message,) = handler.handled
        assert (message.topic, message.partition, message.offset) == ("orders", 1, 99)
        assert message.timestamp == 1_790_000_000_000
        assert message.headers == (("trace", b"7"), (REDRIVEN, b"1"))
        assert sent(cluster) == []
        assert others.messages == []
        await other.close()
        await group.close()


async def test_messages_that_fail_again_stop_at_the_maximum(autojump_clock: MockClock) -> None:
    async with memory_cluster({"orders": 1}) as cluster, deadline() as nursery, member_of(cluster) as group:
        cluster.produce("orders", 0, b"a", b"k")
        nursery.start_soon(group.consume, ["orders"], Handler())
        for number in range(1, 5):
            await eventually(lambda number=number: len(sent(cluster, DEAD)) == number)  # type: ignore[misc]
            result = await redriven(cluster)
            assert len(sent(cluster)) == min(number + 1, 4)
            assert bool(result.errors) is (number == 4)
        await group.close()


# -- interruptions -------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(40 * SOAK))
async def test_interrupted_redrive_loses_no_letter(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """Redrives with other filters end at any time, while requests fail: all letters are sent, few of them twice."""
    chunk = 4
    monkeypatch.setattr(redrive_module, "CHUNK_LETTERS", chunk)
    rng = random.Random(seed)
    runs = [Selection(TopicChoice(DEAD)), only(error_texts=("1",)), only(error_texts=("2", "3"))]
    async with memory_cluster({DEAD: 2, "orders": 2}, brokers=2) as cluster:
        letters = {
            b"%d" % number: (rng.randrange(2), str(rng.randrange(5)))  # its partition, and its error
            for number in range(rng.randrange(1, 80))
        }
        for value, (partition, error) in letters.items():
            write(cluster, value, partition=partition, error=error, key=rng.choice([b"a", b"b", None]))
        for api in (Api.PRODUCE, Api.FETCH, Api.OFFSET_COMMIT, Api.OFFSET_FETCH):
            cluster.delay_next(api, rng.uniform(0.0, 0.3), None)
        unfinished = 0
        for _ in range(rng.randrange(8)):
            fault = rng.choice(["none", "lost answer", "lost request", "refused"])
            if fault == "lost answer":
                cluster.drop_next(rng.choice([Api.PRODUCE, Api.OFFSET_COMMIT]))
            elif fault == "lost request":
                cluster.drop_next(rng.choice([Api.PRODUCE, Api.OFFSET_COMMIT]), half="request")
            elif fault == "refused":
                cluster.fail_next(rng.choice([Api.PRODUCE, Api.OFFSET_COMMIT]), ErrorCode.INVALID_RECORD)
            with trio.move_on_after(rng.uniform(0.1, 8.0)) as scope:
                result = await redriven(cluster, rng.choice(runs), limit=rng.choice([None, 1, 7]))
            unfinished += scope.cancelled_caught or bool(result.errors)
            repeated = len(sent(cluster)) - len({*sent(cluster)})
            assert repeated <= unfinished * chunk
        cluster.clear_faults()
        await trio.sleep(60)
        assert (await redriven(cluster)).errors == ()
        assert {*sent(cluster)} == {*letters}
        repeated = len(sent(cluster)) - len(letters)
        assert repeated <= unfinished * chunk
        assert (await redriven(cluster)).document["letters"] == 0
