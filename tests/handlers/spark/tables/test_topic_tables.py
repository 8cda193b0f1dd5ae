from __future__ import annotations

from pathlib import Path

import pytest

from sarameya import HandlerError
from sarameya_handlers.spark.sink.options import table_of
from sarameya_handlers.spark.tables.topic_tables import TopicTables


def tables_of(**options: object) -> TopicTables:
    tables = table_of(options)
    assert isinstance(tables, TopicTables)
    return tables


@pytest.mark.parametrize(
    ("pattern", "topic", "name"),
    [
        ("iceberg:lake.raw.{topic}", "orders", "iceberg:lake.raw.orders"),
        ("iceberg:lake.raw.k_{topic}", "shop.orders-eu", "iceberg:lake.raw.k_shop_orders_eu"),
        ("delta:raw.{topic}", "shop.orders", "delta:raw.shop_orders"),
        ("delta:/lake/{topic}", "shop.orders-eu", "delta:/lake/shop.orders-eu"),
        ("parquet:/lake/{topic}/v1", "shop.orders-eu", "parquet:/lake/shop.orders-eu/v1"),
        ("parquet:s3://lake/{topic}", "shop.orders-eu", "parquet:s3://lake/shop.orders-eu"),
        ("/lake/{topic}", "shop.orders-eu", "parquet:/lake/shop.orders-eu"),
        ("delta:./{topic}", "shop.orders-eu", f"delta:{Path('shop.orders-eu').absolute()}"),
        ("parquet:{topic}", "shop.orders-eu", f"parquet:{Path('shop.orders-eu').absolute()}"),
    ],
)
def test_table_name_is_the_pattern_with_the_topic(pattern: str, topic: str, name: str) -> None:
    assert tables_of(table=pattern)(topic).name == name


def test_named_tables_take_precedence() -> None:
    tables = tables_of(path="/lake/{topic}", tables={"payments": "delta:/gold/payments"})
    assert [tables(topic).name for topic in ("orders", "payments")] == ["parquet:/lake/orders", "delta:/gold/payments"]


def test_topic_without_a_table_is_refused() -> None:
    with pytest.raises(HandlerError, match=r"payments has no table: name one under \[handler.options.tables\]"):
        tables_of(tables={"orders": "delta:/gold/orders"})("payments")


def test_topics_with_the_same_table_name_are_refused() -> None:
    tables = tables_of(table="iceberg:lake.raw.{topic}")
    tables("shop-orders")
    with pytest.raises(HandlerError, match="shop-orders and shop_orders would both land in iceberg:"):
        tables("shop_orders")
    assert tables("shop-orders").name == "iceberg:lake.raw.shop_orders"


def test_several_topics_may_share_one_named_table() -> None:
    tables = tables_of(tables=dict.fromkeys(["a", "b"], "delta:/gold/all"))
    assert tables("a") is tables("b")
    assert tables("a").name == "delta:/gold/all"


def test_examples_include_each_table_format() -> None:
    tables = tables_of(table="iceberg:lake.raw.{topic}", tables={"a": "delta:/gold/a"})
    assert [table.name for table in tables.examples()] == ["delta:/gold/a", "iceberg:lake.raw.topic"]
