"""The order of brokers for requests that any broker can serve."""

from __future__ import annotations

from sarameya.net.broker_rotation import DEMOTED_FOR, MAX_WAIT_EACH, BrokerRotation, seconds_each
from sarameya.protocol.cluster.metadata import Broker

BROKERS = [Broker(number, "host", number) for number in (1, 2, 3)]


def order(rotation: BrokerRotation, now: float = 0.0, kind: str = "metadata") -> list[int]:
    return [broker.node_id for broker in rotation.next_order(kind, BROKERS, now)]


def test_each_request_starts_with_the_next_broker() -> None:
    rotation = BrokerRotation()
    assert [order(rotation) for _ in range(4)] == [[1, 2, 3], [2, 3, 1], [3, 1, 2], [1, 2, 3]]


def test_each_kind_of_request_has_its_own_rotation() -> None:
    """Two alternating kinds in one rotation of two brokers would always use the same broker each."""
    rotation = BrokerRotation()
    assert [order(rotation, kind=kind)[0] for kind in ("a", "b", "a", "b")] == [1, 1, 2, 2]


def test_failed_broker_comes_last_for_a_while() -> None:
    rotation = BrokerRotation()
    rotation.failed("host:1", 0.0)
    assert [order(rotation, 1.0) for _ in range(3)] == [[2, 3, 1], [3, 2, 1], [2, 3, 1]]
    assert order(rotation, DEMOTED_FOR)[0] == 1


def test_failed_brokers_are_tried_in_order_of_failure() -> None:
    rotation = BrokerRotation()
    for now, address in enumerate(("host:3", "host:1", "host:2")):
        rotation.failed(address, float(now))
    assert order(rotation, 3.0) == [3, 1, 2]


def test_total_wait_for_all_brokers_is_within_the_timeout() -> None:
    assert seconds_each(3, 10.0) == MAX_WAIT_EACH
    assert seconds_each(100, 10.0) * 100 < 10.0
