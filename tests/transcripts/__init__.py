"""Responses of Apache Kafka and of the embedded broker: one suite of transcripts for both.

A transcript is data: steps by named connections, each a request, right or wrong, or something that happens to the
cluster (`script`). Those about groups are written by `verbs`, those about logs by `log_verbs` and `batches`, all of
them in `suite`. A play is a transcript in the API versions of a client of some age (`versions`); `player` plays it by
raw requests on any cluster (`stage`, `changes`), with what its clients have been told (`notes`), and records the
answers, made comparable (`answers`).

    golden/*.json                               what Apache Kafka 4.1 answered, committed
    test_embedded                               the embedded broker against that, in memory and virtual time, no Java
    integration/test_real_kafka_transcripts     Kafka 4.1 against that, live, and Kafka 3.9 too
    differences                                 where somebody answers otherwise than Kafka 4.1 (`known_groups`,
                                                `known_logs`), and what is not played, each with its reason

To add a transcript: write it into a theme of `suite`, run `python -m tests.transcripts.record THEME`, read what has
changed in the golden file, and run the tests. What depends on time leaves two seconds for a busy machine, since
Kafka's clock is real; what a broker leaves to chance (who leads when two are equal) is in no transcript, nor is what
Kafka never answers (a Produce whose records are null).
"""
