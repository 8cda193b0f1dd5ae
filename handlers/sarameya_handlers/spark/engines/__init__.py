"""Spark drivers and their sessions: start, sharing, cancellation, death, replacement.

engine.py        the only access to Spark, shared by several sinks          keeper.py    replaces a Spark that has died
pool.py          sessions, threads, cancellation                            driver.py    the interface to a Spark driver
classic.py       classic Spark as a driver                                  connect.py   Spark Connect as a driver
driver_start.py  starting and stopping a driver without blocking the loop   lease.py     one driver per table
jvm/             the JVM of classic Spark: launch, output, guard, temporary files
"""
