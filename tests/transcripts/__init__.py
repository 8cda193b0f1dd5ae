"""Responses of Apache Kafka and of the embedded broker: one suite of transcripts for both.

A transcript is data: steps of named connections, each a valid or invalid request, or a change of the cluster
(`script`). `suite` has all transcripts. Those about groups are written with `verbs`, those about logs with `log_verbs`
and `batches`. A play is a transcript in the API versions of a client of some age (`versions`). `player` plays it by raw
requests on any cluster (`stage`, `changes`), keeps the ids that its clients receive (`notes`), and records the
responses in a comparable form (`answers`).

    golden/*.json                               the recorded responses of Apache Kafka 4.1
    test_embedded                               compares the embedded broker, in memory and virtual time, without Java
    integration/test_real_kafka_transcripts     compares a live Kafka 4.1, and Kafka 3.9
    differences                                 responses that differ from Kafka 4.1's (`known_groups`, `known_logs`),
                                                and transcripts that are not played, each with its reason

To add a transcript: write it into a theme of `suite`, run `python -m tests.transcripts.record THEME`, read the
difference of the golden file, and run the tests. Steps that depend on time have a margin of two seconds for a busy
machine, since Kafka's clock is real. No transcript has an outcome that a broker leaves to chance (which of two equal
members leads), or a request without any response (a Produce whose records are null).
"""
