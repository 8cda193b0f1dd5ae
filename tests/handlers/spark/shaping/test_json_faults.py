"""Descriptions of invalid JSON records, including malicious ones."""

from __future__ import annotations

import tracemalloc

import pytest
from pyspark.sql.types import ArrayType, DecimalType, DoubleType, IntegerType, StringType, StructField, StructType

from sarameya_handlers.spark.shaping.formats.json_faults import describe_fault

KIND = StructType(
    [
        StructField("i", IntegerType()),
        StructField("f", DoubleType()),
        StructField("d", DecimalType(5, 2)),
        StructField("s", StringType()),
        StructField("l", ArrayType(DecimalType(4, 1))),
    ]
)
LONG = "1" * 5_000

FAULTS = {
    f'{{"i": {LONG}}}': "it has a number that is too long",
    f'{{"s": "x", "other": -{LONG}}}': "it has a number that is too long",
    f'{{"f": 1e{"9" * 30}}}': "it has a number that is too long",
    '{"f": 1e1000000}': "f: 1e+1000000 is out of the range of double",
    '{"f": -1e1000000}': "f: -1e+1000000 is out of the range of double",
    '{"d": 1e999999999}': "d: 1e+999999999 is out of the range of decimal(5,2)",
    '{"d": 1e-999999999}': "d: 1e-999999999 has more digits than decimal(5,2), which would round it",
    '{"d": "1e999999999"}': "d: '1e999999999' is out of the range of decimal(5,2)",
    '{"d": "NaN"}': "d: expected decimal(5,2), found text ('NaN')",
    '{"d": "-Infinity"}': "d: expected decimal(5,2), found text ('-Infinity')",
    '{"d": "1,5"}': "d: expected decimal(5,2), found text ('1,5')",
    '{"l": [0.0, 1e-20]}': "l[1]: 1e-20 has more digits than decimal(4,1), which would round it",
}
VALID = ['{"f": 1e-1000000}', '{"d": 0e-999999999}', '{"d": 1.2300000}', '{"d": 999.99}', '{"l": [100, 1e2, -0.0]}']


@pytest.mark.parametrize(("record", "fault"), FAULTS.items(), ids=[str(n) for n in range(len(FAULTS))])
def test_fault_55_malicious_record_is_described_in_little_memory(record: str, fault: str) -> None:
    tracemalloc.start()
    try:
        assert describe_fault(record.encode(), KIND) == fault
        assert tracemalloc.get_traced_memory()[1] < 10**6, "a number of ten characters must not take a gigabyte"
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("record", VALID)
def test_number_within_its_column_type_is_no_fault(record: str) -> None:
    assert describe_fault(record.encode(), KIND) is None
