"""Valid and invalid Produce requests. Repeated batches are in `producers`."""

from __future__ import annotations

from sarameya.protocol.records.compression import Codec
from sarameya.protocol.versions import Api
from tests.transcripts.batches import (
    NOON,
    attributes,
    batch,
    control,
    cut_off,
    last_delta,
    length,
    magic,
    record_count,
    with_tail,
    without_transaction,
    wrong_crc,
)
from tests.transcripts.log_requests import EARLIEST, LATEST, ORDERS, fetch, init_producer, list_offsets, produce
from tests.transcripts.script import DeleteRecords, Group, MoveLeader, Producer, Transcript
from tests.transcripts.versions import every

_EVERY = every(Api.PRODUCE)
_SOME = ("lowest", "2.4", "3.9", "4.1")
"""The oldest profile, the first with error messages, a later one with the current leader, and one with topic ids."""
_TOPICS = {"orders": 1}
_SEVERAL = {"orders": 2}

_TOO_LARGE = "x" * (1 << 20)

TRANSCRIPTS = (
    Transcript(
        "produce: records are stored, one batch after the other",
        (
            produce("a", "a", "b"),
            produce("a", "c", acks=1),
            produce("a", to={("orders", 1): batch("d"), ORDERS: batch("e")}),
            fetch("a", {ORDERS: 0, ("orders", 1): 0}),
        ),
        profiles=_EVERY,
        topics=_SEVERAL,
    ),
    Transcript(
        "produce: before there were record batches",
        (produce("a", "a"), list_offsets("a", LATEST)),
        profiles=("0.8", "0.9", "0.10"),
        topics=_TOPICS,
    ),
    Transcript(
        "produce: without acknowledgement",
        (
            produce("a", "a", "b", acks=0),
            list_offsets("a", LATEST),
            produce("a", to={("orders", 7): batch("c")}, acks=0),
            produce("b", to={ORDERS: batch("c", corrupted=wrong_crc)}, acks=0),
            list_offsets("a", LATEST),
        ),
        profiles=_SOME,
        topics=_SEVERAL,
    ),
    Transcript(
        "produce: undefined acknowledgements",
        (
            produce("a", "a", acks=2),
            produce("a", "a", acks=-2),
            produce("a", to={ORDERS: batch("a"), ("orders", 7): batch("b")}, acks=3),
            list_offsets("a", LATEST),
        ),
        profiles=_SOME,
        topics=_SEVERAL,
    ),
    Transcript(
        "produce: nothing to store",
        (
            produce("a", to={}),
            produce("a", to={ORDERS: b""}),
            produce("b", to={ORDERS: batch("a", corrupted=record_count(0))}),
            list_offsets("a", LATEST),
        ),
        profiles=_SOME,
        topics=_TOPICS,
    ),
    Transcript(
        "produce: topics and partitions that do not exist",
        (
            produce("a", to={("unknown", 0): batch("a")}),
            produce("a", to={("orders", 2): batch("a"), ("orders", -1): batch("b"), ORDERS: batch("c")}),
            produce("a", to={("unknown", 0): batch("a"), ORDERS: batch("c"), ("orders", 1): batch("d")}),
            list_offsets("a", LATEST),
        ),
        profiles=_EVERY,
        topics=_SEVERAL,
    ),
    Transcript(
        "produce: a batch that is broken",
        (
            produce("a", to={ORDERS: batch("a", corrupted=wrong_crc), ("orders", 1): batch("b")}),
            produce("b", to={ORDERS: batch("a", corrupted=cut_off)}),
            produce("c", to={ORDERS: batch("a", corrupted=with_tail)}),
            produce("d", to={ORDERS: b"nonsense"}),
            produce("e", to={ORDERS: batch("a", corrupted=length(-1))}),
            produce("f", to={ORDERS: batch("a", corrupted=length(20))}),
            produce("g", to={ORDERS: batch("a", "b", corrupted=record_count(3))}),
            produce("h", to={ORDERS: batch("a", "b", corrupted=record_count(1))}),
            produce("i", to={ORDERS: batch("a", "b", corrupted=record_count(-1))}),
            produce("j", to={ORDERS: batch("a", "b", corrupted=last_delta(7))}),
            produce("k", to={ORDERS: batch("a", "b", corrupted=last_delta(-1))}),
            list_offsets("a", LATEST),
        ),
        profiles=_SOME,
        topics=_SEVERAL,
    ),
    Transcript(
        "produce: a batch in another format",
        (
            produce("a", to={ORDERS: batch("a", corrupted=magic(0))}),
            produce("b", to={ORDERS: batch("a", corrupted=magic(1))}),
            produce("c", to={ORDERS: batch("a", corrupted=magic(3))}),
            produce("d", to={ORDERS: batch("a", corrupted=magic(-1))}),
            list_offsets("a", LATEST),
        ),
        profiles=_SOME,
        topics=_TOPICS,
    ),
    Transcript(
        "produce: a batch that no producer may send",
        (
            produce("a", to={ORDERS: (batch("a"), batch("b"))}),
            produce("b", to={ORDERS: batch("a", corrupted=control)}),
            produce("c", to={ORDERS: batch("a", corrupted=without_transaction)}),
            produce("d", to={ORDERS: batch("a", base_offset=7)}),
            list_offsets("a", LATEST),
        ),
        profiles=_SOME,
        topics=_TOPICS,
    ),
    Transcript(
        "produce: a batch of a transaction that was not begun",
        (
            init_producer("a"),
            produce(
                "a",
                to={ORDERS: batch("a", producer=Producer("a"), epoch=0, sequence=0, transactional=True)},
                transactional_id=Group("of nobody"),
            ),
            produce("a", "b", transactional_id=Group("of nobody")),
            list_offsets("a", LATEST),
        ),
        profiles=_SOME,
        topics=_TOPICS,
    ),
    Transcript(
        "produce: records without a time",
        (
            produce("a", to={ORDERS: batch("a", times=-1)}),
            produce("b", to={ORDERS: batch("a", times=-7)}),
            fetch("a", 0),
        ),
        profiles=_SOME,
        topics=_TOPICS,
    ),
    Transcript(
        "produce: records of the far future",
        (produce("a", to={ORDERS: batch("a", "b", "c", times=(2**52, NOON, 2**53)), ("orders", 1): batch("d")}),),
        profiles=_SOME,
        topics=_SEVERAL,
    ),
    Transcript(
        "produce: a batch that is too large",
        (
            produce("a", to={ORDERS: batch(_TOO_LARGE), ("orders", 1): batch("b")}),
            produce("a", to={ORDERS: batch(_TOO_LARGE, codec=Codec.GZIP)}),
            produce("a", to={ORDERS: batch(_TOO_LARGE[:-100])}),
            list_offsets("a", LATEST),
        ),
        profiles=_SOME,
        topics=_SEVERAL,
    ),
    Transcript(
        "produce: batches are stored as they were compressed",
        (
            *(produce("a", to={ORDERS: batch(codec.name, codec=codec)}) for codec in Codec),
            fetch("a", 0),
            fetch("a", 3),
        ),
        profiles=_EVERY,
        topics=_TOPICS,
    ),
    Transcript(
        "produce: a batch with the wrong codec",
        (
            *(produce(codec.name, to={ORDERS: batch("a", corrupted=attributes(codec))}) for codec in Codec if codec),
            produce("e", to={ORDERS: batch("a", corrupted=attributes(5))}),
            produce("f", to={ORDERS: batch("a", corrupted=attributes(7))}),
            list_offsets("a", LATEST),
        ),
        profiles=_SOME,
        topics=_TOPICS,
    ),
    Transcript(
        "produce: a log that begins later",
        (
            produce("a", "a", "b", "c"),
            DeleteRecords("orders", 0, 2),
            produce("a", "d"),
            DeleteRecords("orders", 0, 4),
            produce("a", "e"),
            list_offsets("a", EARLIEST),
        ),
        profiles=_EVERY,
        topics=_TOPICS,
    ),
    Transcript(
        "produce: only the leader accepts records",
        (
            produce("a", to={ORDERS: batch("a"), ("orders", 1): batch("b")}),
            produce("a", to={ORDERS: batch("a"), ("orders", 1): batch("b")}, broker=1),
            produce("a", to={ORDERS: batch("a"), ("orders", 1): batch("b")}, broker=2),
            MoveLeader("orders", 0, 1),
            produce("a", "c"),
            produce("a", "d", broker=1),
            fetch("a", 0, broker=1),
        ),
        profiles=_EVERY,
        topics=_SEVERAL,
        brokers=3,
    ),
)
