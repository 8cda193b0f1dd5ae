"""Tables of topics: the table in which the records of each topic land, by a pattern and by exceptions from it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

import attrs

from sarameya import ConfigError, HandlerError
from sarameya_handlers.spark.tables.named import parse_table
from sarameya_handlers.spark.tables.table import Table

TOPIC = "{topic}"
"""The place of the topic's name in a table's name."""


@attrs.frozen(slots=True, kw_only=True)
class TopicTables:
    """Returns the table of a topic. Call it with the topic's name.

    In a catalog, characters of the topic that a name there cannot have become `_`: the topic `shop.orders-eu` lands in
    `lake.raw.shop_orders_eu`. In paths and URLs nothing is replaced.

    Attributes:
        make: Makes a table from its name.
        pattern: A table's name with `{topic}`; None if only the topics of `named` have a table.
        named: Names of tables by topic. They take precedence over the pattern.
    """

    make: Callable[[str], Table]
    pattern: str | None = None
    named: Mapping[str, str] = attrs.field(factory=dict)
    _topics: dict[str, str] = attrs.field(init=False, factory=dict)
    """The topic of each name that was made from the pattern."""
    _made: dict[str, Table] = attrs.field(init=False, factory=dict)

    def __attrs_post_init__(self) -> None:
        if self.pattern is None and not self.named:
            raise ConfigError("tables", self.named, "must name the tables of topics, unless `table` has {topic} in it")
        if self.pattern is not None and TOPIC not in self.pattern:
            raise ConfigError("table", self.pattern, "must contain {topic} if topics have tables of their own (tables)")
        self.examples()

    def __call__(self, topic: str) -> Table:
        """Return the topic's table. It is not opened yet.

        Raises:
            HandlerError: The topic has no table, or its table would be that of another one.
        """
        name = self._name_of(topic)
        if name not in self._made:
            self._made[name] = self.make(name)
        return self._made[name]

    def _name_of(self, topic: str) -> str:
        if topic in self.named:
            return self.named[topic]
        if self.pattern is None:
            raise HandlerError(f"the topic {topic} has no table: name one under [handler.options.tables], or set table")
        name = _filled(self.pattern, topic)
        if (other := self._topics.setdefault(name, topic)) != topic:
            raise HandlerError(
                f"the topics {other} and {topic} would both land in {name}: name the table of one of them under "
                "[handler.options.tables]"
            )
        return name

    def examples(self) -> list[Table]:
        """Return tables of each format that is used. Raises ConfigError if a name is invalid."""
        names = [*self.named.values(), *([] if self.pattern is None else [_filled(self.pattern, "topic")])]
        return [self.make(name) for name in names]


def _filled(pattern: str, topic: str) -> str:
    kind, place = parse_table(pattern)
    is_path = kind == "parquet" or (kind == "delta" and ("/" in place or place.startswith(".")))
    return pattern.replace(TOPIC, topic if is_path else re.sub(r"\W", "_", topic))
