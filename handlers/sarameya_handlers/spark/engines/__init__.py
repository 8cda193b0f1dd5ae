"""Spark's life: started, shared, cancelled, lost, found again.

engine.py    the only way into Spark, and who has which; keeping.py: another when it has died; starting.py
pool.py      sessions, threads, cancellation             driver.py    the seam to classic.py and connect.py
jvm.py       classic Spark's JVM: jvm_launch.py, jvm_output.py, jvm_guard.py; scratch.py: its temporary files;
             start_failures.py: why it has not started; java.py: what must be installed
"""
