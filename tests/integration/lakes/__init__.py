"""Delta Lake and Iceberg for tests: the jars, and a Spark configuration with both.

from tests.integration.lakes import lake_options
running = jvm.start(lake_options(tmp_path))          # classic Spark
lake_properties(tmp_path)                            # the same as plain properties, for a Connect server
"""

from tests.integration.lakes.jars import avro_jars, lake_jars, spark_jars
from tests.integration.lakes.properties import ICEBERG_CATALOG, lake_options, lake_properties

__all__ = ["ICEBERG_CATALOG", "avro_jars", "lake_jars", "lake_options", "lake_properties", "spark_jars"]
