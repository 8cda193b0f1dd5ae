// The member of Confluent's Parallel Consumer. bench/members/protocol.py describes its task and its reports. It always
// commits, as often as by default, and has no slow partition. Java compiles this file when it starts.

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import io.confluent.parallelconsumer.ParallelConsumerOptions;
import io.confluent.parallelconsumer.ParallelConsumerOptions.ProcessingOrder;
import io.confluent.parallelconsumer.ParallelEoSStreamProcessor;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.utils.AppInfoParser;

public final class ParallelConsumerMember {
    private static final Map<String, ProcessingOrder> ORDERS = Map.of(
            "partition", ProcessingOrder.PARTITION, "key", ProcessingOrder.KEY, "none", ProcessingOrder.UNORDERED);

    private final ObjectMapper json = new ObjectMapper();
    private final JsonNode task;
    private final List<Long> sequences = new ArrayList<>();
    private final List<Long> lateness = new ArrayList<>();
    private long handled;

    private ParallelConsumerMember(String task) throws Exception {
        this.task = json.readTree(task);
    }

    public static void main(String[] arguments) throws Exception {
        new ParallelConsumerMember(arguments[0]).run();
    }

    private void run() throws Exception {
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            done();
            Runtime.getRuntime().halt(0);
        }));
        report("loaded", Map.of());
        // Parallel Consumer compares keys with equals, which for byte[] is true for the same object only.
        var consumer = new KafkaConsumer<>(
                Map.<String, Object>of(
                        "bootstrap.servers", task.get("bootstrap").asText(),
                        "group.id", task.get("group").asText(),
                        "auto.offset.reset", "earliest",
                        "enable.auto.commit", false),
                new StringDeserializer(),
                new ByteArrayDeserializer());
        var processor = new ParallelEoSStreamProcessor<>(
                ParallelConsumerOptions.<String, byte[]>builder()
                        .consumer(consumer)
                        .ordering(ORDERS.get(task.get("ordering").asText()))
                        .maxConcurrency(task.get("concurrency").asInt())
                        .build());
        processor.subscribe(List.of(task.get("topic").asText()), new ConsumerRebalanceListener() {
            @Override
            public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
                report("assigned", Map.of("partitions", partitions.size()));
            }

            @Override
            public void onPartitionsRevoked(Collection<TopicPartition> partitions) {}
        });
        long pace = Math.round(task.get("pace").asDouble() * 1000);
        boolean isStamped = task.get("is_stamped").asBoolean();
        processor.poll(context -> {
            sleep(pace);
            handled(isStamped ? ByteBuffer.wrap(context.value()) : null);
        });
        double seconds = task.get("report_seconds").asDouble();
        while (!processor.isClosedOrFailed()) {
            sleep(seconds > 0 ? Math.round(seconds * 1000) : 1000);
            if (seconds > 0) {
                progress();
            }
        }
        System.err.println("Parallel Consumer has failed: " + processor.getFailureCause());
        Runtime.getRuntime().halt(1);
    }

    private synchronized void handled(ByteBuffer stamp) {
        handled++;
        if (stamp != null) {
            // Linux: the monotonic clock, which all programs of a machine share.
            lateness.add(System.nanoTime() - stamp.getLong());
            sequences.add(stamp.getLong());
        }
    }

    private synchronized void progress() {
        report("progress", Map.of("others", handled));
    }

    private synchronized void done() {
        String version = System.getProperty("member.version") + " (kafka-clients " + AppInfoParser.getVersion() + ")";
        report("done", Map.of("others", handled, "sequences", sequences, "lateness", lateness, "version", version));
    }

    private synchronized void report(String event, Map<String, Object> more) {
        var line = new LinkedHashMap<String, Object>(Map.of("event", event, "at", System.nanoTime() / 1e9));
        line.putAll(more);
        try {
            System.out.println(json.writeValueAsString(line));
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    private static void sleep(long milliseconds) {
        try {
            Thread.sleep(milliseconds);
        } catch (InterruptedException error) {
            throw new IllegalStateException(error);
        }
    }
}
