"""The `dead_letters` table of an app file.

    [handler.options.dead_letters]
    topic = "orders.dead"
    bootstrap_servers = ["localhost:9092"]

or `path = "/data/dead"`, a directory, or `path = "s3://lake/dead"` with the `store` of a Parquet table.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sarameya import ConfigError
from sarameya_handlers.landing.dead_letters.files import FileDeadLetters
from sarameya_handlers.landing.dead_letters.letters import DeadLetters
from sarameya_handlers.landing.dead_letters.topic import TopicDeadLetters
from sarameya_handlers.landing.stores.options import store_options
from sarameya_handlers.options import check_known


def dead_letters(options: Any, prefix: str = "dead_letters.") -> DeadLetters:
    """Return the place for dead letters that these options describe.

    Args:
        options: Table of an app file.
        prefix: Prepended to the names of options in errors.

    Raises:
        ConfigError: An option is unknown, missing, or has a wrong value.
    """
    if not isinstance(options, Mapping):
        raise ConfigError(prefix.rstrip("."), options, "must be a table: path, or topic and bootstrap_servers")
    check_known(options, {"path", "store", "topic", "bootstrap_servers"}, prefix)
    if ("path" in options) == ("topic" in options):
        raise ConfigError(prefix.rstrip("."), dict(options), "must have either path or topic")
    if "store" in options and "path" not in options:
        raise ConfigError(f"{prefix}store", options["store"], "is for the URL of an object store (path)")
    if "topic" in options and "bootstrap_servers" not in options:
        raise ConfigError(f"{prefix}bootstrap_servers", None, "must be a list of HOST:PORT, where the topic is")
    try:
        if "path" in options:
            store = store_options(options["store"]) if "store" in options else None
            return FileDeadLetters(options["path"], store=store)
        return TopicDeadLetters(options["bootstrap_servers"], options["topic"])
    except ConfigError as error:
        raise ConfigError(prefix + error.option, error.value, error.allowed) from None
    except TypeError:
        name, allowed = (
            ("path", "the name of a directory") if "path" in options else ("bootstrap_servers", "a list of HOST:PORT")
        )
        raise ConfigError(prefix + name, options[name], f"must be {allowed}") from None
