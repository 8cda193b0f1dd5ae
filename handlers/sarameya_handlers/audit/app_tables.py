"""The tables in which the Spark sink of an app file lands."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import trio

from sarameya import ConfigError
from sarameya.service import App, Cluster
from sarameya_handlers.audit.cluster import open_admin
from sarameya_handlers.spark.sink.options import table_of
from sarameya_handlers.spark.tables.table import Table
from sarameya_handlers.spark.tables.topic_tables import TopicTables


def tables_of_app(app: App, options: Mapping[str, Any], place: Callable[[], Cluster]) -> list[Table]:
    """Return the tables of an app's topics, each one once.

    Args:
        app: The app.
        options: Options that replace those of the app's handler.
        place: Returns the cluster, which is asked for topics if the app subscribes to a pattern.

    Raises:
        ConfigError: The app has another handler, or an option is invalid.
        HandlerError: A topic of the app has no table.
        SarameyaError: The cluster does not respond.
    """
    if app.handler.name != "spark":
        raise ConfigError(
            "handler.name", app.handler.name, "must be 'spark', the only handler with tables; or name a TABLE"
        )
    target = table_of({**app.handler.options, **options})
    if not isinstance(target, TopicTables):
        return [target]
    topics: Iterable[str] = app.topics
    if app.topics_pattern is not None:
        pattern = re.compile(app.topics_pattern)
        topics = sorted(topic for topic in trio.run(_all_topics, place()) if pattern.fullmatch(topic))
    return [*dict.fromkeys(map(target, topics))]


async def _all_topics(place: Cluster) -> list[str]:
    async with open_admin(place) as admin:
        return [name for name, topic in (await admin.metadata_of_all()).topics.items() if not topic.is_internal]
