"""Members of a group, a program for each client, that handle messages as they are told to and say how they get on.

Where `bench.consume` asks how fast a topic is read, the other benches ask what else reading does: how late a message
comes, what one slow partition does to the others, what a quiet member costs, what memory one takes that is behind.
They share these programs.

`telling` is what programs and benches say to each other (Go's half: `go/telling`), `programs` and `go` are the
programs, `clients` names them, `running` runs them, `rounds` one after another.
"""
