"""The JVM of classic Spark: launched in a process group of its own, watched, and removed without a trace.

spark_jvm.py        Spark started and stopped in a JVM        launch.py    launch of the process, and its end
output.py           the JVM's output, and its way into our log
guard.py            a shell that ends a starting JVM with us  scratch.py   temporary files, and those of dead JVMs
start_failures.py   reasons why a JVM has not started
"""
