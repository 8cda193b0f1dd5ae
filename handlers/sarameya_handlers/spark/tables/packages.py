"""What a lake's format needs of Spark: its jars, and the settings that bring them in. Asked right after Spark is up.

Without that check Spark would fail in the middle of some statement, with a stack that names none of the missing lines.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import attrs

from sarameya import HandlerError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_EXTENSIONS = "spark.sql.extensions"


@attrs.frozen(slots=True)
class Package:
    """A table format's jars and settings."""

    format: str
    artifact: str
    """Its Maven coordinates, with Spark's version, as in 4.1, to be filled in."""
    versions: Mapping[str, str]
    """The format's version that is known to fit, by Spark's."""
    class_name: str
    """A class that is there if the jars are."""
    settings: Mapping[str, str]
    needs_extension: bool = True

    def require(self, spark: SparkSession) -> None:
        """Raise HandlerError, with the lines that are needed, unless the jars are there, and the extension if needed.

        Of a Spark Connect server the classes cannot be asked: there Spark's own errors tell (see `missing`).
        """
        jvm = getattr(spark, "_jvm", None)
        if jvm is None:
            return
        has_jars = bool(jvm.org.apache.spark.util.Utils.classIsLoadable(self.class_name))
        extensions = spark.conf.get(_EXTENSIONS, None) or ""
        has_extension = not self.needs_extension or self.settings[_EXTENSIONS] in extensions
        if not has_jars or not has_extension:
            raise self.missing(spark, has_jars=has_jars)

    def missing(self, spark: SparkSession, *, has_jars: bool = False) -> HandlerError:
        """The error for a Spark without this package: which lines it needs, on a command line and in an app file."""
        lines = {} if has_jars else {"spark.jars.packages": self.coordinates()}
        for key, value in self.settings.items():
            there = spark.conf.get(key, None)
            if not there:
                lines[key] = value
            elif key == _EXTENSIONS and value not in there:
                lines[key] = f"{there},{value}"
        told = [f"Spark has no {self.format}: give it the following and start again.", "On a command line:"]
        told += [f"  --conf {key}={value}" for key, value in lines.items()]
        told += ["Or in the app file (a Spark Connect server is started with them instead):"]
        told += ["  [handler.options.spark.conf]", *(f'  "{key}" = "{value}"' for key, value in lines.items())]
        return HandlerError("\n".join(told))

    def coordinates(self) -> str:
        """Maven's, for the Spark that is installed; where no version is known to fit, with a word in its place."""
        import pyspark

        minor = ".".join(pyspark.__version__.split(".")[:2])
        version = self.versions.get(minor, f"VERSION_FOR_SPARK_{minor}")
        return f"{self.artifact.format(spark=minor)}:{version}"


DELTA = Package(
    "Delta Lake",
    "io.delta:delta-spark_{spark}_2.13",
    {"4.1": "4.3.0"},
    "io.delta.sql.DeltaSparkSessionExtension",
    {
        _EXTENSIONS: "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    },
)


def iceberg(catalog: str) -> Package:
    """What tables of that catalog need. Spark 4 has procedures without Iceberg's extension."""
    return Package(
        "Iceberg",
        "org.apache.iceberg:iceberg-spark-runtime-{spark}_2.13",
        {"4.1": "1.12.0"},
        "org.apache.iceberg.spark.SparkCatalog",
        {
            _EXTENSIONS: "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
            f"spark.sql.catalog.{catalog}": "org.apache.iceberg.spark.SparkCatalog",
        },
        needs_extension=False,
    )
