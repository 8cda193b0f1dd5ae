import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HexFormat;
import java.util.Properties;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.kafka.clients.admin.AdminClientConfig;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.producer.ProducerConfig;

/**
 * Writes the files beside it: the names of all properties of Kafka's own clients, and the result of parsing
 * hostile.properties with java.util.Properties: one line per property, its name and value in hex of UTF-8. With the
 * jars of kafka-clients 4.1.0 and its dependencies in libs/:
 *
 *     java -cp 'libs/*' ConfigGolden.java > kafka_names.txt
 *     java -cp 'libs/*' ConfigGolden.java hostile.properties > hostile.txt
 *
 * A line of kafka_names.txt is tab-separated: the name, and its clients (C: consumer, P: producer, A: admin client).
 */
public class ConfigGolden {
    public static void main(String[] args) throws IOException {
        if (args.length > 0) {
            properties(Path.of(args[0]));
            return;
        }
        TreeSet<String> all = new TreeSet<>(ConsumerConfig.configNames());
        all.addAll(ProducerConfig.configNames());
        all.addAll(AdminClientConfig.configNames());
        for (String name : all) {
            String clients = (ConsumerConfig.configNames().contains(name) ? "C" : "")
                + (ProducerConfig.configNames().contains(name) ? "P" : "")
                + (AdminClientConfig.configNames().contains(name) ? "A" : "");
            System.out.println(name + "\t" + clients);
        }
    }

    static void properties(Path path) throws IOException {
        Properties read = new Properties();
        try (var reader = Files.newBufferedReader(path, StandardCharsets.UTF_8)) {
            read.load(reader);
        }
        TreeMap<String, String> lines = new TreeMap<>();
        for (String name : read.stringPropertyNames()) lines.put(hex(name), hex(read.getProperty(name)));
        for (var line : lines.entrySet()) System.out.println(line.getKey() + "\t" + line.getValue());
    }

    static String hex(String text) {
        return HexFormat.of().formatHex(text.getBytes(StandardCharsets.UTF_8));
    }
}
