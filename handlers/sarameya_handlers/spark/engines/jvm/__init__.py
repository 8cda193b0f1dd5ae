"""The JVM of classic Spark: launched in a process group of its own, watched, and ended with all of its files removed.

spark_jvm.py        start and stop of Spark in a JVM          launch.py    launch of the process, and its end
output.py           the JVM's output, in this process's log
guard.py            a shell that ends a starting JVM with us  scratch.py   temporary files, and those of dead JVMs
start_failures.py   reasons why a JVM has not started
"""
