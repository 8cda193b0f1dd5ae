import pytest

from sarameya import ProducerRecord

RECORD = {"topic": "orders", "value": b"v"}


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        ({"topic": ""}, TypeError),
        ({"topic": b"orders"}, TypeError),
        ({"headers": [("name", "text")]}, TypeError),
        ({"headers": [(b"name", b"")]}, TypeError),
        ({"headers": [("\ud800", b"")]}, ValueError),
        ({"headers": ["name"]}, ValueError),
        ({"partition": -1}, ValueError),
        ({"partition": 2**31}, ValueError),
        ({"partition": True}, TypeError),
        ({"timestamp": -1}, ValueError),
        ({"timestamp": 2**63}, ValueError),
        ({"timestamp": 1.5}, TypeError),
    ],
    ids=repr,
)
def test_invalid_record_is_refused(wrong, error):
    with pytest.raises(error):
        ProducerRecord(**RECORD | wrong)


def test_headers_from_any_pairs_become_a_tuple():
    record = ProducerRecord("orders", None, headers=[("a", b"1"), ("a", None)])

    assert record.headers == (("a", b"1"), ("a", None))
