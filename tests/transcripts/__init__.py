"""What group requests are answered, by Apache Kafka and by the embedded broker: one suite of transcripts for both.

A transcript is data: steps by named connections, each a request, right or wrong (`script`, written by `verbs`, all of
them in `suite`). A play is a transcript in the API versions of a client of some age (`versions`); `player` plays it by
raw requests on any cluster (`stage`) and records the answers, made comparable (`answers`).

    golden/*.json                               what Apache Kafka 4.1 answered, committed
    test_embedded                               the embedded broker against that, in memory and virtual time, no Java
    integration/test_real_kafka_transcripts     Kafka 4.1 against that, live, and Kafka 3.9 too
    differences                                 where somebody answers otherwise than Kafka 4.1, and what is not
                                                played, each with its reason

To add a transcript: write it into a theme of `suite`, run `python -m tests.transcripts.record THEME`, read what has
changed in the golden file, and run the tests. What depends on time leaves two seconds for a busy machine, since
Kafka's clock is real; what a broker leaves to chance (who leads when two are equal) is in no transcript.
"""
