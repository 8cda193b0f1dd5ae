"""JSON that Spark would cut off, round or guess, with a real Spark: it is refused, and the field is named."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sarameya_handlers.spark.shaping.decode_options import Decode
from sarameya_handlers.spark.shaping.formats.json_faults import describe_fault
from sarameya_handlers.spark.shaping.shaping import Shaping
from tests.integration.lake_stage import EITHER, either
from tests.integration.shaping.stage import Stage, column

pytestmark = [
    pytest.mark.integration,
    # pyspark leaves sockets open when rows are collected.
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]

DDL = (
    "id bigint, i int, name string, d decimal(5,2), f double, fl float, ts timestamp_ltz, nt timestamp_ntz, dt date, "
    "b boolean, tags array<struct<t: int, at: timestamp_ltz, p: decimal(4,1)>>, m map<string,int>, "
    "st struct<x: int, d: decimal(38,18)>, `odd ``name` date, ti tinyint, tis array<struct<ti: tinyint>>"
)
SHAPING = Shaping(value=Decode(format="json", schema=DDL))

GOOD = [
    "null", "{}", ' {"id": 1}\n', '{"id": -0}', '{"d": 1.23}', '{"d": 1.230}', '{"d": -999.99}', '{"d": 1e1}',
    '{"d": "1.23"}', '{"f": 1.23456789012345678901234567890}', '{"f": 1e308}', '{"f": 9007199254740993}',
    '{"fl": 0.1}', '{"ts": "2026-11-22T10:00:00.123456Z"}', '{"ts": "2026-11-22T10:00:00.123456000Z"}',
    '{"ts": "2026-11-22 10:00:00"}', '{"ts": "2026-11-22"}', '{"ts": "2026-11-22T10:00:00+01:00"}',
    '{"nt": "2026-11-22T10:00:00.1"}', '{"dt": "2026-11-22"}', '{"name": 5}', '{"name": {"a": [1]}}',
    '{"name": "\\ud83d\\ude00"}', '{"name": "\\\\ud800"}', '{"name": "\\u0000"}', '{"Name": "x"}', '{"m": {"a": 1}}',
    '{"tags": [{"t": 1, "at": "2026-11-22T10:00:00Z", "p": 1.5}, null, {}]}', '{"tags": []}',
    '{"st": {"d": 0.000000000000000001}}', '{"st": {"d": 12345678901234567890.123456789012345678}}',
    '{"other": {"d": 1.23456, "at": "2026-11-22T10:00:00.123456789Z"}}', '{"odd `name": "2026-11-22"}',
    '{"ti": -128}', '{"ti": 127, "tis": [{"ti": -1}, {}, null]}', '{"name": "1,5", "d": 1.5}', '{"tags": [null]}',
    '{"id": 1, "id": 2}', '{"_sarameya_corrupt": "x", "_corrupt_record": "y"}', '{"note": "1.2345 3e8"}',
]  # fmt: skip
BAD = {
    '{"id": 1} and more': "the JSON value is followed by 'and more': a record must be one value",
    '{"id": 1}{"id": 2}': "the JSON value is followed by '{\"id\": 2}'",
    '{"id": 1}, {"id": 2}': "the JSON value is followed by",
    "{}]": "the JSON value is followed by ']'",
    "{}],[{}": "the JSON value is followed by",
    "": "no JSON at all",
    " \n": "no JSON at all",
    "\ufeff{}": "a byte order mark stands before the JSON",
    "{},null]": "the JSON value is followed by ',null]'",
    '{},{"id": 2}],null]': "the JSON value is followed by",
    "{}}": "the JSON value is followed by '}'",
    '{},"x":{}': "the JSON value is followed by",
    '{"ts": "2026-11-22T10:00Z"}': "ts: '2026-11-22T10:00Z' is no timestamp",
    "5": "the value: expected an object, found a number (5)",
    "[{}]": "the value: expected an object, found an array",
    "{'id': 1}": "no JSON: ",
    '{"id": 1,}': "no JSON: ",
    '{"id": 1': "no JSON: ",
    '{"name": "a\x01b"}': "no JSON: ",
    '{"f": NaN}': "NaN is not a JSON number",
    '{"other": -Infinity}': "-Infinity is not a JSON number",
    '{"id": 1.5}': "id: expected bigint, found a number (1.5)",
    '{"id": 1.0}': "id: expected bigint, found a number (1.0)",
    '{"id": "7"}': "id: expected bigint, found text ('7')",
    '{"id": true}': "id: expected bigint, found a boolean (true)",
    '{"id": 9223372036854775808}': "id: 9223372036854775808 is out of the range of bigint",
    '{"i": 2147483648}': "i: 2147483648 is out of the range of int",
    '{"d": 1.234}': "d: 1.234 has more digits than decimal(5,2), which would round it",
    '{"d": 1e-3}': "has more digits than decimal(5,2)",
    '{"d": 1000}': "d: 1000 is out of the range of decimal(5,2)",
    '{"ti": 128}': "ti: 128 is out of the range of tinyint",
    '{"ti": 255}': "ti: 255 is out of the range of tinyint",
    '{"tis": [{"ti": 1}, {"ti": 200}]}': "tis[1].ti: 200 is out of the range of tinyint",
    '{"d": "1,5"}': "d: expected decimal(5,2), found text ('1,5')",
    '{"d": "1,234"}': "d: expected decimal(5,2), found text ('1,234')",
    '{"d": ",1"}': "d: expected decimal(5,2), found text (',1')",
    '{"tags": [{"p": "-1,"}]}': "tags[0].p: expected decimal(4,1), found text ('-1,')",
    '{"f": 1e1000000}': "f: 1e+1000000 is out of the range of double",
    f'{{"i": {"1" * 5_000}}}': "it has a number that is too long",
    '{"d": "1.234"}': "d: '1.234' has more digits than decimal(5,2)",
    '{"d": 1.23000000000000000000000000000000001}': "has more digits than decimal(5,2)",
    '{"st": {"d": 1.2345678901234567891}}': "st.d: 1.2345678901234567891 has more digits than decimal(38,18)",
    '{"st": {"d": 1.5e-20}}': "has more digits than decimal(38,18)",
    '{"tags": [{"t": 1}, {"p": 1.25}]}': "tags[1].p: 1.25 has more digits than decimal(4,1)",
    '{"f": 1e400}': "f: 1e+400 is out of the range of double",
    '{"fl": 1e39}': "fl: 1e+39 is out of the range of float",
    '{"f": "1.5"}': "f: expected double, found text ('1.5')",
    '{"ts": "2026-11-22T10:00:00.123456789Z"}': "ts: '2026-11-22T10:00:00.123456789Z' is no timestamp of ISO 8601",
    '{"ts": "12:00"}': "ts: '12:00' is no timestamp",
    '{"ts": "2026"}': "ts: '2026' is no timestamp",
    '{"ts": 1700000000000}': "ts: expected timestamp as text, found a number (1700000000000)",
    '{"ts": "2026-02-30T00:00:00Z"}': "ts: '2026-02-30T00:00:00Z' is no timestamp of the calendar",
    '{"ts": "2026-11-22T24:00:00Z"}': "is no timestamp of the calendar",
    '{"nt": "2026-11-22T10:00:00Z"}': "nt: '2026-11-22T10:00:00Z' is no timestamp_ntz",
    '{"dt": "2026-11-22T10:00:00Z"}': "dt: '2026-11-22T10:00:00Z' is no date",
    '{"dt": "20000"}': "dt: '20000' is no date",
    '{"dt": 20000}': "dt: expected date as text, found a number (20000)",
    '{"odd `name": "x"}': "odd `name: 'x' is no date",
    '{"tags": [{"at": "2026-11-22T10:00:00.1234567Z"}]}': "tags[0].at: '2026-11-22T10:00:00.1234567Z' is no timestamp",
    '{"tags": {"t": 1}}': "tags: expected an array, found an object",
    '{"tags": [{"t": "x"}]}': "tags[0].t: expected int, found text ('x')",
    '{"m": {"a": 1, "a": 2}}': "",
    '{"m": {"a": "x"}}': "m['a']: expected int, found text ('x')",
    '{"b": "true"}': "b: expected boolean, found text ('true')",
    '{"name": "\\ud800"}': "name: half of a surrogate pair is no character",
    '{"name": "\\ude00\\ud83d"}': "name: half of a surrogate pair is no character",
}
TIMES = (
    '{"ts": "2026-11-22 10:00:00", "nt": "2026-11-22T10:00:00.1", "dt": "0005-01-02", "tags": [{"at": "2026-11-22"}]}'
)


@pytest.fixture(scope="module", params=EITHER)
def spark(request: pytest.FixtureRequest) -> Iterator[Any]:
    with either(request, compiles=True) as session:
        yield session


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path)


def test_fault_55_lossy_json_is_refused_by_field(spark: Any, stage: Stage) -> None:
    values = [text.encode() for bad in BAD for text in (GOOD[len(bad) % len(GOOD)], bad)]
    found = {bad.offset: bad.reason for bad in SHAPING.unreadable(spark, stage.landing([*values, b'{"name": "\xff"}']))}
    refused = {values[offset - 100].decode() for offset in found if offset - 100 < len(values)}
    assert refused == set(BAD)
    assert found.pop(100 + len(values)).endswith("cannot be decoded as json: byte 10 is no UTF-8")
    wrong = {
        text: reason
        for offset, reason in found.items()
        if not reason.startswith("value: it cannot be decoded as json")
        or BAD[text := values[offset - 100].decode()] not in reason
    }
    assert wrong == {}


@pytest.mark.parametrize("text", BAD)
def test_fault_55_lossy_json_does_not_land(spark: Any, stage: Stage, text: str) -> None:
    frame = SHAPING.frame(spark, stage.landing([b"{}", text.encode()]))
    with pytest.raises(Exception, match=r"value at offset 101|MALFORMED|CANNOT_PARSE|PARSE"):
        frame.collect()


def test_fault_55_lossless_json_is_accepted(spark: Any, stage: Stage) -> None:
    landing = stage.landing([text.encode() for text in GOOD])
    assert list(SHAPING.unreadable(spark, landing)) == []
    found = column(SHAPING.frame(spark, landing).selectExpr("offset", "to_json(value) as value"))
    texts = dict(zip(GOOD, found, strict=True))
    assert texts["null"] is None
    assert json.loads(texts['{"st": {"d": 0.000000000000000001}}']) == {"st": {"d": 1e-18}}
    assert json.loads(texts['{"id": 1, "id": 2}']) == {"id": 2}


@pytest.mark.parametrize("zone", ["UTC", "America/St_Johns"])
def test_fault_55_time_without_a_zone_is_utc_in_any_session(spark: Any, stage: Stage, zone: str) -> None:
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        frame = SHAPING.frame(spark, stage.landing([TIMES.encode()]))
        row = frame.selectExpr(
            "unix_micros(value.ts)",
            "cast(value.nt as string)",
            "cast(value.dt as string)",
            "unix_micros(value.tags[0].at)",
        ).first()
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)
    assert tuple(row) == (1795341600_000_000, "2026-11-22 10:00:00.1", "0005-01-02", 1795305600_000_000)


_VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**64), 2**64),
    st.floats(allow_nan=True),
    st.decimals(allow_nan=False, allow_infinity=False, places=3).map(float),
    st.text(max_size=6),
    st.text("1,.-", max_size=4),
    st.datetimes().map(lambda when: when.isoformat() + "Z"),
    st.dates().map(str),
    st.just({}),
    st.lists(st.integers(), max_size=1),
)
_FIELDS = ["id", "i", "ti", "name", "d", "f", "fl", "ts", "nt", "dt", "b", "st", "other"]
_OBJECTS = st.dictionaries(st.sampled_from(_FIELDS), _VALUES, max_size=2).map(json.dumps)
_TEXTS = st.one_of(
    _OBJECTS,
    st.tuples(_OBJECTS, st.text(" {}[],\"x'1\n", max_size=2)).map("".join),
    st.tuples(_OBJECTS, st.integers(0, 40)).map(lambda both: both[0][: both[1]]),
)


@settings(max_examples=6, deadline=None, suppress_health_check=list(HealthCheck))
@given(texts=st.lists(_TEXTS, min_size=150, max_size=300))
def test_fault_55_spark_and_decoder_refuse_the_same_json(spark: Any, tmp_path: Path, texts: list[str]) -> None:
    values = [text.encode(errors="replace") for text in texts]
    landing = Stage(tmp_path).landing(values)
    kind = spark.createDataFrame([], f"kind struct<{DDL}>").schema["kind"].dataType
    refused = {values[bad.offset - 100] for bad in SHAPING.unreadable(spark, landing)}
    assert refused == {value for value in values if describe_fault(value, kind) is not None}
    good = [value for value in values if value not in refused]
    if good:
        assert SHAPING.frame(spark, Stage(tmp_path).landing(good)).selectExpr("to_json(value)").collect()
