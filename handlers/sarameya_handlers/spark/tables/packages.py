"""Jars and settings that a table format needs in Spark. Checked right after Spark has started.

Without the check, a later statement would fail, with a Java stack that does not name the missing settings.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import attrs

from sarameya import HandlerError, install_command

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_EXTENSIONS = "spark.sql.extensions"


@attrs.frozen(slots=True)
class Package:
    """Jars and settings of a table format."""

    format: str
    extra: str
    """Name of the extra that installs a PySpark for which there is a version."""
    artifact: str
    """Maven coordinates without version. `{spark}` stands for Spark's version, such as 4.1."""
    versions: Mapping[str, str]
    """Versions of the format that are known to work, by Spark version."""
    class_name: str
    """A class of the jars, to check that they are there."""
    settings: Mapping[str, str]
    needs_extension: bool = True

    def require(self, spark: SparkSession) -> None:
        """Raise HandlerError with the missing configuration lines, unless jars and extension are present.

        The classes of a Spark Connect server cannot be checked: Spark's own errors report them later (`missing_error`).
        """
        jvm = getattr(spark, "_jvm", None)
        if jvm is None:
            return
        has_jars = bool(jvm.org.apache.spark.util.Utils.classIsLoadable(self.class_name))
        extensions = spark.conf.get(_EXTENSIONS, None) or ""
        has_extension = not self.needs_extension or self.settings[_EXTENSIONS] in extensions
        if not has_jars or not has_extension:
            raise self.missing_error(spark, has_jars=has_jars)

    def missing_error(self, spark: SparkSession, *, has_jars: bool = False) -> HandlerError:
        """Return the error for a Spark without this package: the missing lines for a command line and an app file."""
        if not has_jars and (version := _minor()) not in self.versions:
            known = " or ".join(self.versions)
            return HandlerError(
                f"{self.format} has no version that is known to work with Spark {version}: install PySpark {known} "
                f"({install_command(self.extra)}), or give the jars of one that does (spark.jars.packages)"
            )
        lines = {} if has_jars else {"spark.jars.packages": self.coordinates()}
        for key, value in self.settings.items():
            current = spark.conf.get(key, None)
            if not current:
                lines[key] = value
            elif key == _EXTENSIONS and value not in current:
                lines[key] = f"{current},{value}"
        lines_shown = [f"Spark has no {self.format}: give it the following and start again.", "On a command line:"]
        lines_shown += [f"  --conf {key}={value}" for key, value in lines.items()]
        lines_shown += ["Or in the app file (a Spark Connect server is started with them instead):"]
        lines_shown += ["  [handler.options.spark.conf]", *(f'  "{key}" = "{value}"' for key, value in lines.items())]
        return HandlerError("\n".join(lines_shown))

    def coordinates(self) -> str:
        """Return the Maven coordinates for the installed Spark, whose version must be known."""
        return f"{self.artifact.format(spark=_minor())}:{self.versions[_minor()]}"


def _minor() -> str:
    """Return the version of the installed PySpark without its last number, such as 4.1."""
    import pyspark

    return ".".join(pyspark.__version__.split(".")[:2])


DELTA = Package(
    "Delta Lake",
    "delta",
    "io.delta:delta-spark_{spark}_2.13",
    {"4.1": "4.3.0", "4.2": "4.4.0"},
    "io.delta.sql.DeltaSparkSessionExtension",
    {
        _EXTENSIONS: "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    },
)


def iceberg(catalog: str) -> Package:
    """Return the package for tables of that catalog. Spark 4 does not need Iceberg's extension for its procedures."""
    return Package(
        "Iceberg",
        "iceberg",
        "org.apache.iceberg:iceberg-spark-runtime-{spark}_2.13",
        {"4.1": "1.12.0"},
        "org.apache.iceberg.spark.SparkCatalog",
        {
            _EXTENSIONS: "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
            f"spark.sql.catalog.{catalog}": "org.apache.iceberg.spark.SparkCatalog",
        },
        needs_extension=False,
    )
