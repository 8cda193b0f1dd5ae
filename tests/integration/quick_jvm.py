"""What makes a JVM that lives for a minute start and run fast on few cores: no second compiler, which is at work long
after a test has ended, and no collector in threads of its own."""

from __future__ import annotations

QUICK_JVM = {"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xshare:auto"}
"""Properties of Spark's."""
