"""Rules for letters that are sent back: whether they may be, where to, and as which records. Pure."""

from __future__ import annotations

import attrs

from sarameya.handling.letters import Letter
from sarameya.producer.partitioner import partition_of
from sarameya.producer.record import ProducerRecord
from sarameya.service.output.text import counted


@attrs.frozen(slots=True)
class Refusal:
    """The reason why letters are not sent.

    Attributes:
        reason: The reason, and the remedy.
        permanent: A person has to change something first.
    """

    reason: str
    permanent: bool = True


@attrs.frozen(slots=True)
class RedriveRules:
    """Rules of `sarameya letters redrive`.

    Attributes:
        to: Topic that letters are sent to; None: the topic that each one came from.
        is_retry: `to` is a retry topic: the letters get headers from which `MessageHandler` restores them.
        max_redrives: Letters that were redriven so often are not sent again.
    """

    to: str | None = None
    is_retry: bool = False
    max_redrives: int = 3

    def refusal(self, letter: Letter) -> Refusal | None:
        """Return the reason why a letter must not be sent; None if it may."""
        if letter.redriven >= self.max_redrives:
            times = counted(self.max_redrives, "time")
            return Refusal(f"redriven {times} or more, and failed again: correct the cause, then raise --max-redrives")
        if self.to is None and not letter.topic:
            return Refusal("the headers do not name the topic that it came from: name one by --to")
        if self.is_retry and (not letter.topic or letter.partition is None or letter.offset is None):
            return Refusal("the headers do not say where it came from, which a retry topic needs: use --to")
        return None

    def target(self, letter: Letter) -> str:
        """Return the topic that a letter is sent to."""
        return letter.topic if self.to is None else self.to

    def record(self, letter: Letter, partitions: int, now: float) -> ProducerRecord:
        """Return the record to send.

        Without `to` it goes to the partition that the message was in, whatever its key: producers have different
        partitioners, and only the one that wrote the message knows its own. With `to`, or if the topic has no such
        partition any more, the key decides as with Kafka's own producers.

        Args:
            letter: The letter; `refusal` has none for it.
            partitions: Number of partitions of the target.
            now: Seconds since 1970.
        """
        message = letter.message
        is_back = self.to is None and letter.partition is not None and letter.partition < partitions
        if is_back:
            partition = letter.partition
        else:
            partition = None if message.key is None else partition_of(message.key, partitions)
        headers = letter.retry_headers(int(now * 1000)) if self.is_retry else letter.redriven_headers()
        return ProducerRecord(self.target(letter), message.value, message.key, headers, partition)
