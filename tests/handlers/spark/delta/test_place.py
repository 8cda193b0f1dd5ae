"""Table locations as users write them."""

from __future__ import annotations

from pathlib import Path

import pytest

from sarameya import ConfigError
from sarameya_handlers.spark.delta.place import Place, local_root


@pytest.mark.parametrize(
    ("written", "location", "shown"),
    [
        ("/data/orders", "file:///data/orders", "/data/orders"),
        (Path("/data/a b"), "file:///data/a b", "/data/a b"),
        ("file:/data/orders", "file:///data/orders", "/data/orders"),
        ("file:///data/100%25", "file:///data/100%25", "/data/100%25"),
        ("s3a://bucket/orders/", "s3a://bucket/orders", "s3a://bucket/orders"),
        ("hdfs:/data/orders", "hdfs:/data/orders", "hdfs:/data/orders"),
        ("dbfs:/data/orders", "dbfs:/data/orders", "dbfs:/data/orders"),
        ("./orders", f"file://{Path.cwd()}/orders", f"{Path.cwd()}/orders"),
    ],
)
def test_path_is_a_location(written: str | Path, location: str, shown: str) -> None:
    place = Place.of(written)
    assert (place.location, place.table, str(place)) == (location, "", shown)
    assert place.sql == f"delta.`{location}`"


@pytest.mark.parametrize(
    ("written", "sql", "shown"),
    [
        ("orders", "`orders`", "orders"),
        ("lake.sales.orders", "`lake`.`sales`.`orders`", "lake.sales.orders"),
        ("lake.`of 2026`.orders", "`lake`.`of 2026`.`orders`", "lake.of 2026.orders"),
    ],
)
def test_catalog_name_is_a_table(written: str, sql: str, shown: str) -> None:
    place = Place.of(written)
    assert (place.location, place.sql, str(place)) == ("", sql, shown)


@pytest.mark.parametrize("written", ["", None, 3, "a b", "a..b", "a;drop table b", "/data/[0-9]", "1st.orders"])
def test_other_text_is_refused(written: object) -> None:
    with pytest.raises(ConfigError):
        Place.of(written)


def test_backtick_in_a_path_is_escaped() -> None:
    assert Place.of("/data/a`b").sql == "delta.`file:///data/a``b`"


@pytest.mark.parametrize("location", ["file:/data/a b", "file:///data/a b"])
def test_local_location_is_a_directory(location: str) -> None:
    assert local_root(location) == Path("/data/a b")


def test_remote_location_is_no_directory() -> None:
    assert local_root("s3a://bucket/orders") is None


def test_file_names_of_places_differ() -> None:
    names = {Place.of(one).file_name for one in ("/data/orders", "/data_orders", "data.orders", "s3a://data/orders")}
    assert len(names) == 4
    assert not any("/" in name or name.startswith((".", "_")) for name in names)
