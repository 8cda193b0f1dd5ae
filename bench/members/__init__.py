"""Group members, a program for each client: they handle messages as their task says, and report their progress.

`bench.consume` measures how fast a topic is read. Other benches measure the latency of messages, the effect of one slow
partition on the others, the cost of a quiet member, the memory of a member that lags, and handlers that wait. They
share these programs.

`protocol` is what benches and programs send each other (Go's half: `go/protocol`), `programs`, `go` and `java` are the
programs, `clients` names them, `running` runs one of them, `rounds` runs them one after another.
"""
